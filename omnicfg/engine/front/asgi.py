"""ASGI 3, as the front and the middleware of vLLM's server speak it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

JSON: Final[Headers] = [(b"content-type", b"application/json")]


async def respond(send: Send, status: int, body: bytes, headers: Headers) -> None:
    """A whole answer, with its length."""
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body})


class Noted:
    """Sends, and knows whether anything was sent, and whether all of it."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.begun = self.ended = False

    async def __call__(self, message: Message) -> None:
        self.begun = True
        self.ended = message["type"] == "http.response.body" and not message.get("more_body")
        await self._send(message)
