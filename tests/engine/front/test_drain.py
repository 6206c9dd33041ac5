"""A front that is asked to stop lets requests in flight finish."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

httpx = pytest.importorskip("httpx", reason="comes with the extra cpu or cuda")
pytest.importorskip("uvicorn", reason="comes with the extra cpu or cuda")
pytest.importorskip("prometheus_client", reason="comes with the extra cpu or cuda")

from omnicfg.engine.front.__main__ import _Server  # noqa: E402
from omnicfg.engine.front.app import Front  # noqa: E402
from omnicfg.engine.front.desk import Desk, Link  # noqa: E402
from omnicfg.engine.front.metrics import Metrics  # noqa: E402
from omnicfg.engine.front.setup import Setup  # noqa: E402
from tests.patience import PATIENCE_S, until_so  # noqa: E402


async def stopped(drain_s: float, *, answers: bool, begins: bool = False) -> Any:
    """The answer to a request that is in flight when the server is asked to stop; stage 0 ``answers`` it after that.

    It may have begun to before.
    """
    asked, stops, told = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def pieces() -> AsyncIterator[bytes]:
        yield b"half"
        asked.set()
        await asyncio.Event().wait()

    async def thinker(request: Any) -> Any:
        if begins:
            return httpx.Response(200, content=pieces())
        asked.set()
        await (stops if answers else asyncio.Event()).wait()
        own = {"date": "Mon, 30 Nov 2026 00:00:00 GMT", "server": "uvicorn", "x-request-id": "7"}
        return httpx.Response(200, headers=own, stream=httpx.ByteStream(b"whole"))

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    desk = Desk([Link(1, "talker")])
    setup = Setup("127.0.0.1", port, (), "", "", (), ("a",), "a", drain_s=drain_s)
    async with httpx.AsyncClient(transport=httpx.MockTransport(thinker), base_url="http://thinker") as upstream:
        metrics = Metrics(desk)
        front = Front(upstream, desk, metrics, voices=("a",), default_voice="a", healthy=lambda: True)
        server = _Server(setup, front, told.set)
        serving = asyncio.create_task(server.serve())
        await until_so(lambda: server.started)
        async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S) as client:
            asking = asyncio.create_task(client.post(f"http://127.0.0.1:{port}/v1/completions", json={}))
            await asked.wait()
            server._ask()
            assert told.is_set(), "who is behind it may end now"
            await until_so(lambda: not server.servers[0].is_serving())
            stops.set()
            try:
                return await asking
            finally:
                await serving


def test_what_is_done_in_time_is_answered() -> None:
    answer = asyncio.run(stopped(PATIENCE_S, answers=True))
    assert (answer.status_code, answer.content) == (200, b"whole")
    said = {name: len(answer.headers.get_list(name)) for name in ("date", "server", "x-request-id")}
    assert said == {"date": 1, "server": 1, "x-request-id": 1}, "both servers are uvicorn's, and say some things alike"


def test_what_takes_longer_is_told_that_the_server_stops() -> None:
    answer = asyncio.run(stopped(1.0, answers=False))
    assert answer.status_code == 503
    assert "is stopping" in answer.json()["error"]["message"]


def test_what_has_begun_and_takes_longer_is_cut_off_without_a_traceback(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(httpx.RemoteProtocolError, match="without sending complete message body"):
        asyncio.run(stopped(1.0, answers=False, begins=True))
    assert "Traceback" not in capfd.readouterr().err
