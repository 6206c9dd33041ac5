"""Whether stage 0 makes progress with its requests.

vLLM's server answers for its engine even where that hangs: requests then wait for ever, and ``/health`` is 200. So all
that is asked of it goes through :class:`Pulse`. While a request waits for it, a piece of an answer is a sign of life,
and so is a step of the engine, which vLLM counts on ``/metrics``; where there was neither for long enough, it hangs. A
request whose client does not take what has come already does not wait for stage 0, however long that takes.

"Long enough" is a number of looks and no time read off a clock: a machine that stands still for a while holds up the
front as well, and that stage 0 made no step meanwhile is not its fault.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Iterator
from typing import Final

import httpx

_STEPS: Final = re.compile(rb"^vllm:iteration_tokens_total_count(?:\{[^}]*\})? (\S+)$", re.MULTILINE)
_LOOKS: Final = 8
"""How many looks have to see nothing before a silence is long enough."""


class Pulse(httpx.AsyncBaseTransport):
    """A transport that notes what waits for stage 0. ``limit_s`` is how long it may make no step meanwhile."""

    def __init__(self, transport: httpx.AsyncBaseTransport, limit_s: float) -> None:
        self._transport = transport
        self._limit_s = limit_s
        self._waiting = 0
        self._silence = 0  # looks in a row
        self._steps = b""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """As the transport does; a POST waits for its answer, and for each piece of that when it is asked for."""
        if request.method != "POST":
            return await self._transport.handle_async_request(request)
        with self.waiting():
            response = await self._transport.handle_async_request(request)
            self.beat()
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = _Noted(response.stream, self)
        return response

    async def aclose(self) -> None:
        await self._transport.aclose()

    def beat(self) -> None:
        """A sign of life."""
        self._silence = 0

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """One request more waits for stage 0."""
        if not self._waiting:  # nobody has until now
            self.beat()
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1

    async def hangs(self, thinker: httpx.AsyncClient) -> str:
        """Returns when stage 0 hangs: how that shows. ``thinker`` is asked for its metrics."""
        while True:
            await asyncio.sleep(self._limit_s / _LOOKS)
            if not self._waiting:
                continue
            self._silence += 1
            if self._silence > _LOOKS / 2:
                await self._look(thinker)
            if self._waiting and self._silence > _LOOKS:
                return f"made no step for {self._limit_s:g} s (requests under way: {self._waiting}) and was ended"

    async def _look(self, thinker: httpx.AsyncClient) -> None:
        try:
            async with asyncio.timeout(self._limit_s / _LOOKS):
                told = (await thinker.get("/metrics")).content
        except TimeoutError:
            self._silence += 1  # it took as long as there is between two looks
            return
        except httpx.HTTPError:
            return
        steps = b" ".join(_STEPS.findall(told))
        if steps != self._steps:
            self._steps = steps
            self.beat()


class _Noted(httpx.AsyncByteStream):
    """An answer of which every piece is a sign of life."""

    def __init__(self, stream: httpx.AsyncByteStream, pulse: Pulse) -> None:
        self._stream, self._pulse = stream, pulse

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pieces = aiter(self._stream)
        while True:
            with self._pulse.waiting():
                try:
                    piece = await anext(pieces)
                except StopAsyncIteration:
                    return
                self._pulse.beat()
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()
