"""Requests for speech where a plan's speech is not served: refused with the reason, rather than answered in silence.

vLLM's server loads :class:`TextOnly` through its ``--middleware`` option; the reason is in the environment variable
:data:`VARIABLE`.
"""

from __future__ import annotations

import json
import os
from typing import Final

from omnicfg.engine.front.chat import asks_for_audio, error_body
from omnicfg.serve.request_defaults import App, Message, Receive, Send

VARIABLE: Final = "OMNICFG_NO_SPEECH"
_PATH: Final = "/v1/chat/completions"


class TextOnly:
    """ASGI middleware; ``reason`` is told to clients."""

    def __init__(self, app: App, reason: str | None = None) -> None:
        self.app = app
        self.reason = os.environ.get(VARIABLE, "") if reason is None else reason

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST" or scope["path"] != _PATH:
            await self.app(scope, receive, send)
            return
        messages: list[Message] = []
        while True:
            messages.append(await receive())
            if messages[-1]["type"] != "http.request" or not messages[-1].get("more_body"):
                break
        if _asks(b"".join(message.get("body", b"") for message in messages)):
            await self._refuse(send)
            return

        async def replayed() -> Message:
            return messages.pop(0) if messages else await receive()

        await self.app(scope, replayed, send)

    async def _refuse(self, send: Send) -> None:
        message = f"this server does not answer in speech: {self.reason}"
        body = json.dumps(error_body(message, 400, "modalities")).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 400, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def _asks(body: bytes) -> bool:
    try:
        return asks_for_audio(json.loads(body))
    except (ValueError, RecursionError):
        return False
