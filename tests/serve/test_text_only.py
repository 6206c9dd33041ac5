"""A server whose plan has speech that it cannot make says so to whoever asks for it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import MutableMapping
from typing import Any

import pytest

from omnicfg.serve.text_only import TextOnly

Message = MutableMapping[str, Any]


def answer(body: bytes, path: str = "/v1/chat/completions", pieces: int = 1) -> list[Message]:
    """What the client gets of a server that gives back the body that it has read."""
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

    middleware = TextOnly(app, "nothing computes stage 1")
    asyncio.run(middleware({"type": "http", "method": "POST", "path": path}, receive, send))
    return sent


def test_speech_is_refused_with_the_reason() -> None:
    start, body = answer(json.dumps({"modalities": ["text", "audio"]}).encode(), pieces=3)
    assert start["status"] == 400
    error = json.loads(body["body"])["error"]
    assert error["message"].endswith("nothing computes stage 1")
    assert error["param"] == "modalities"


@pytest.mark.parametrize("body", [b'{"modalities": ["text"]}', b'{"messages": []}', b"[1]", b"{", b""])
def test_everything_else_reaches_the_server_as_it_came(body: bytes) -> None:
    [message] = answer(body, pieces=2)
    assert message["body"] == body


def test_other_paths_are_not_looked_at() -> None:
    body = json.dumps({"modalities": ["audio"]}).encode()
    [message] = answer(body, "/v1/completions")
    assert message["body"] == body
