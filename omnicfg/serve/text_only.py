"""Requests for speech where a plan's speech is not served: refused with the reason, rather than answered in silence.

vLLM's server loads :class:`TextOnly` through its ``--middleware`` option; the reason is in the environment variable
:data:`VARIABLE`.
"""

from __future__ import annotations

import os
from typing import Final

from omnicfg.engine.front.asgi import App, Message, Receive, Send
from omnicfg.engine.front.chat import may_be_chat, refuse, spoken
from omnicfg.serve.asgi import again, body_of, whole

VARIABLE: Final = "OMNICFG_NO_SPEECH"


class TextOnly:
    """ASGI middleware; ``reason`` is told to clients."""

    def __init__(self, app: App, reason: str | None = None) -> None:
        self.app = app
        self.reason = os.environ.get(VARIABLE, "") if reason is None else reason

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if not may_be_chat(scope):
            await self.app(scope, receive, send)
            return
        messages = await whole(receive, send)
        if messages is None:
            return
        if spoken(body_of(messages)) is not None:
            await refuse(send, 400, f"this server does not answer in speech: {self.reason}", "modalities")
        else:
            await self.app(scope, again(messages, receive), send)
