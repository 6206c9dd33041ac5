"""A front that is asked to stop lets requests in flight finish."""

from __future__ import annotations

import asyncio
import socket
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


async def stopped_after(seconds: float, drain_s: float) -> Any:
    """The answer to a request that takes so long, where the server is asked to stop while it is in flight."""
    asked = asyncio.Event()

    async def thinker(request: Any) -> Any:
        asked.set()
        await asyncio.sleep(seconds)
        return httpx.Response(200, stream=httpx.ByteStream(b"whole"))

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    desk = Desk([Link(1, "talker")])
    setup = Setup("127.0.0.1", port, (), "", "", (), ("a",), "a", drain_s=drain_s)
    async with httpx.AsyncClient(transport=httpx.MockTransport(thinker), base_url="http://thinker") as upstream:
        metrics = Metrics(desk)
        front = Front(upstream, desk, metrics, voices=("a",), default_voice="a", api_key=None, healthy=lambda: True)
        server = _Server(setup, front)
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        async with httpx.AsyncClient(trust_env=False) as client:
            asking = asyncio.create_task(client.post(f"http://127.0.0.1:{port}/v1/completions", json={}, timeout=30))
            await asked.wait()
            server._ask()
            answer = await asking
        await serving
        return answer


def test_what_is_done_in_time_is_answered() -> None:
    answer = asyncio.run(stopped_after(1.0, drain_s=10))
    assert (answer.status_code, answer.content) == (200, b"whole")


def test_what_takes_longer_is_told_that_the_server_stops() -> None:
    answer = asyncio.run(stopped_after(20.0, drain_s=1))
    assert answer.status_code == 503
    assert "is stopping" in answer.json()["error"]["message"]
