"""What a client gets of a server that gives back the body that it has read, behind a middleware."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from omnicfg.engine.front.asgi import App, Message


def answer_of(
    middleware: Callable[[App], Any], scope: Message, body: bytes, pieces: int, read: int | None = None
) -> list[Message]:
    """The messages that are sent; the body comes in so many pieces, of which so many have to be ``read``."""
    size = -(-len(body) // pieces) or 1
    parts = [body[start : start + size] for start in range(0, len(body), size)] or [b""]
    coming: list[Message] = [
        {"type": "http.request", "body": part, "more_body": number + 1 < len(parts)}
        for number, part in enumerate(parts)
    ]
    sent: list[Message] = []

    async def receive() -> Message:
        return coming.pop(0) if coming else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    async def app(scope: Message, receive: Any, send: Any) -> None:
        read = b""
        while (message := await receive())["type"] == "http.request":
            read += message["body"]
        await send({"type": "http.response.body", "body": read})

    asyncio.run(middleware(app)({"type": "http", **scope}, receive, send))
    if read is not None:
        assert len(parts) - len(coming) == read
    return sent
