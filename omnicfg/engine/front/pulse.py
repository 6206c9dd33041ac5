"""Whether stage 0 gets on with what it is asked.

vLLM's server answers for its engine even where that hangs: requests then wait for ever, and ``/health`` is 200. So all
that is asked of it goes through :class:`Pulse`. While something is under way, a piece of an answer is a sign of life,
and so is a step of the engine, which vLLM counts on ``/metrics``; where there was neither for long enough, it hangs.

How long that is, is counted in looks and not read off a clock: a machine that stands still for a while holds up the
front as well, and stage 0 has made no step meanwhile for no fault of its own.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Final

import httpx

_STEPS: Final = re.compile(rb"^vllm:iteration_tokens_total_count(?:\{[^}]*\})? (\S+)$", re.MULTILINE)
_LOOKS: Final = 8
"""How often is looked before a silence is long enough."""


class Pulse(httpx.AsyncBaseTransport):
    """A transport that notes what is under way. ``limit_s`` is how long stage 0 may make no step meanwhile."""

    def __init__(self, transport: httpx.AsyncBaseTransport, limit_s: float) -> None:
        self._transport = transport
        self._limit_s = limit_s
        self._under_way = 0
        self._silence = 0  # looks in a row
        self._steps = b""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """As the transport does; a POST is under way until its answer has been read or given up."""
        if request.method != "POST":
            return await self._transport.handle_async_request(request)
        self._begin()
        try:
            response = await self._transport.handle_async_request(request)
        except BaseException:
            self._under_way -= 1
            raise
        self.beat()
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = _Noted(response.stream, self)
        return response

    async def aclose(self) -> None:
        await self._transport.aclose()

    def beat(self) -> None:
        """A sign of life."""
        self._silence = 0

    def end(self) -> None:
        """One request is no longer under way."""
        self._under_way -= 1

    async def hangs(self, thinker: httpx.AsyncClient) -> str:
        """Returns when stage 0 hangs: how that shows. ``thinker`` is asked for its metrics."""
        while True:
            await asyncio.sleep(self._limit_s / _LOOKS)
            if not self._under_way:
                continue
            self._silence += 1
            if self._silence > _LOOKS / 2:
                await self._look(thinker)
            if self._under_way and self._silence > _LOOKS:
                return f"made no step for {self._limit_s:g} s (requests under way: {self._under_way}) and was ended"

    def _begin(self) -> None:
        if not self._under_way:  # nobody has waited until now
            self.beat()
        self._under_way += 1

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
        self._stream, self._pulse, self._open = stream, pulse, True

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            self._pulse.beat()
            yield piece

    async def aclose(self) -> None:
        if self._open:
            self._open = False
            self._pulse.end()
        await self._stream.aclose()
