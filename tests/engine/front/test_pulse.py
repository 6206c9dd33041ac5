"""Stage 0 hangs where it makes no step although it has something to do, and only there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

httpx = pytest.importorskip("httpx", reason="comes with the extra cpu or cuda")

from omnicfg.engine.front.pulse import Pulse  # noqa: E402
from tests.patience import PATIENCE_S, until_so  # noqa: E402

LIMIT_S = 0.4


class Engine:
    """vLLM's server: answers when it may, in pieces, and counts steps."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.pieces = asyncio.Event()
        self.steps = self.asked = 0
        self.says_steps = self.says_more = True

    async def answer(self, request: Any) -> Any:
        if request.url.path == "/metrics":
            if not self.says_steps:
                raise httpx.ConnectError("gone")
            return httpx.Response(200, content=b'vllm:iteration_tokens_total_count{engine="0"} %d.0\n' % self.steps)
        if request.url.path == "/refused":
            raise httpx.ConnectError("no")
        self.asked += 1
        await self.go_on.wait()
        return httpx.Response(200, content=self.stream())

    async def stream(self) -> AsyncIterator[bytes]:
        while not self.pieces.is_set():
            await asyncio.sleep(LIMIT_S / 10)
            if self.says_more:
                yield b"x"


def run(test: Callable[[Engine, Any, asyncio.Task[str]], Awaitable[None]]) -> None:
    async def go() -> None:
        engine = Engine()
        pulse = Pulse(httpx.MockTransport(engine.answer), LIMIT_S)
        async with (
            asyncio.timeout(PATIENCE_S),
            httpx.AsyncClient(transport=pulse, base_url="http://thinker") as thinker,
        ):
            hangs = asyncio.create_task(pulse.hangs(thinker))
            try:
                await test(engine, thinker, hangs)
            finally:
                hangs.cancel()

    asyncio.run(go())


def test_an_engine_that_makes_no_step_for_a_request_hangs() -> None:
    async def test(engine: Engine, thinker: Any, hangs: asyncio.Task[str]) -> None:
        asking = asyncio.create_task(thinker.post("/v1/completions"))
        assert await hangs == "made no step for 0.4 s (requests under way: 1) and was ended"
        asking.cancel()

    run(test)


def test_one_whose_server_does_not_even_tell_its_steps_hangs() -> None:
    async def test(engine: Engine, thinker: Any, hangs: asyncio.Task[str]) -> None:
        engine.says_steps = False
        asking = asyncio.create_task(thinker.post("/v1/completions"))
        assert "made no step" in await hangs
        asking.cancel()

    run(test)


def test_one_that_has_nothing_to_do_does_not() -> None:
    async def test(engine: Engine, thinker: Any, hangs: asyncio.Task[str]) -> None:
        engine.go_on.set()
        engine.pieces.set()
        await thinker.post("/v1/completions")
        with pytest.raises(httpx.ConnectError):
            await thinker.post("/refused")
        engine.go_on.clear()
        asked = engine.asked
        gone = asyncio.create_task(thinker.post("/v1/completions"))
        await until_so(lambda: engine.asked > asked)
        gone.cancel()
        await asyncio.sleep(3 * LIMIT_S)
        assert not hangs.done()

    run(test)


def test_one_that_steps_for_an_answer_at_its_end_does_not() -> None:
    async def test(engine: Engine, thinker: Any, hangs: asyncio.Task[str]) -> None:
        asking = asyncio.create_task(thinker.post("/v1/completions"))
        for _ in range(10):
            await asyncio.sleep(LIMIT_S / 4)
            engine.steps += 1
        assert not hangs.done()
        asking.cancel()

    run(test)


def test_a_piece_of_an_answer_is_a_sign_of_life_and_its_end_ends_the_watch() -> None:
    async def test(engine: Engine, thinker: Any, hangs: asyncio.Task[str]) -> None:
        engine.go_on.set()
        asking = asyncio.create_task(thinker.post("/v1/completions"))
        await asyncio.sleep(3 * LIMIT_S)
        assert not hangs.done()
        engine.pieces.set()
        await asking
        await asyncio.sleep(2 * LIMIT_S)
        assert not hangs.done()

    run(test)


def test_a_client_that_does_not_take_its_answer_does_not_wait_for_the_engine() -> None:
    """Its connection is full, and the engine has done all there was to do."""

    async def test(engine: Engine, thinker: Any, hangs: asyncio.Task[str]) -> None:
        engine.go_on.set()
        async with thinker.stream("POST", "/v1/completions") as answer:
            pieces = answer.aiter_raw()
            assert await anext(pieces) == b"x"
            await asyncio.sleep(3 * LIMIT_S)
            assert not hangs.done()
            engine.says_more = False
            asking = asyncio.create_task(anext(pieces))  # the client takes it again, and more does not come
            assert "made no step" in await hangs
            asking.cancel()

    run(test)


def test_a_machine_that_stands_still_is_not_a_stage_that_hangs() -> None:
    async def test(engine: Engine, thinker: Any, hangs: asyncio.Task[str]) -> None:
        asking = asyncio.create_task(thinker.post("/v1/completions"))
        await asyncio.sleep(LIMIT_S * 3 / 4)  # the steps have been looked at
        time.sleep(2 * LIMIT_S)  # nothing of this process goes on
        await asyncio.sleep(LIMIT_S / 8)
        assert not hangs.done()
        asking.cancel()

    run(test)
