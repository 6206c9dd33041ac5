"""Requests that are not done when the time after a stop signal is over: they are told so, and the server ends.

vLLM ends its engine then. Whether its requests learn of that is a matter of milliseconds, and for those that do not its
HTTP server waits on and on. uvicorn can cancel them, for which vLLM has no option.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from omnicfg.engine.front.asgi import App, Message, Noted, Receive, Send
from omnicfg.engine.front.chat import OUTLASTS, refuse

_SENDING_S: Final = 3
"""How long the last answers that were done in time may take on their way to the client."""


class Outlasting:
    """ASGI middleware, which vLLM's server loads through its ``--middleware`` option."""

    def __init__(self, app: App) -> None:
        self.app = app
        self._server: Any = None
        self._under_way: set[asyncio.Task[Any]] = set()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            self._server = scope["app"].state.server
            self._server.config.timeout_graceful_shutdown = _SENDING_S
            await self.app(scope, self._until_all_are_told(receive), send)
        elif scope["type"] == "http":
            task = asyncio.current_task()
            assert task is not None, "a server answers each request in a task"
            self._under_way.add(task)
            try:
                await self._answer(scope, receive, Noted(send))
            finally:
                self._under_way.remove(task)
        else:
            await self.app(scope, receive, send)

    async def _answer(self, scope: Message, receive: Receive, send: Noted) -> None:
        try:
            await self.app(scope, receive, send)
        except asyncio.CancelledError:
            if not self._server.should_exit:
                raise
            if not send.begun:  # otherwise it is cut off: the client sees an answer without its end
                await refuse(send, 503, OUTLASTS)

    def _until_all_are_told(self, receive: Receive) -> Receive:
        """vLLM takes its application apart at the end; requests that are cancelled still need it."""

        async def received() -> Message:
            message = await receive()
            if message["type"] == "lifespan.shutdown" and self._under_way:
                await asyncio.wait(self._under_way, timeout=_SENDING_S)
            return message

        return received
