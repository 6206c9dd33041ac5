"""Requests that are not done when the time after a stop signal is over: on uvicorn as vLLM stops it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from omnicfg.serve import outlasting
from omnicfg.serve.outlasting import Outlasting
from tests.patience import PATIENCE_S, until_so

httpx = pytest.importorskip("httpx", reason="comes with the extra cpu or cuda")
uvicorn = pytest.importorskip("uvicorn", reason="comes with the extra cpu or cuda")
pytest.importorskip("starlette", reason="comes with the extra cpu or cuda")

from starlette.applications import Starlette  # noqa: E402
from starlette.middleware import Middleware  # noqa: E402
from starlette.requests import Request  # noqa: E402
from starlette.responses import PlainTextResponse, StreamingResponse  # noqa: E402
from starlette.routing import Route  # noqa: E402


async def stopped(*, begins: bool = False, answers: bool = False) -> Any:
    """The answer to a request that is under way as the server stops, and is answered then or never."""
    asked, stops = asyncio.Event(), asyncio.Event()

    async def pieces() -> AsyncIterator[bytes]:
        yield b"half"
        asked.set()
        await asyncio.Event().wait()

    async def answer(request: Request) -> Any:
        if begins:
            return StreamingResponse(pieces())
        asked.set()
        try:
            await (stops if answers else asyncio.Event()).wait()
        finally:
            assert request.app.state.server is server, "the application is there to the end"
        return PlainTextResponse("whole")

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        del app.state  # as vLLM does it

    app = Starlette(routes=[Route("/", answer)], middleware=[Middleware(Outlasting)], lifespan=lifespan)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        app.state.server = server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
        serving = asyncio.create_task(server.serve([listening]))
        await until_so(lambda: server.started)
        async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S) as client:
            asking = asyncio.create_task(client.get(f"http://127.0.0.1:{listening.getsockname()[1]}/"))
            await asked.wait()
            server.should_exit = True
            stops.set()
            try:
                return await asking
            finally:
                await asyncio.wait_for(serving, PATIENCE_S)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlasting, "_SENDING_S", 1)


def test_what_is_done_is_answered() -> None:
    answer = asyncio.run(stopped(answers=True))
    assert (answer.status_code, answer.text) == (200, "whole")


@pytest.mark.usefixtures("soon")
def test_what_is_not_done_is_told_that_the_server_stops(capfd: pytest.CaptureFixture[str]) -> None:
    answer = asyncio.run(stopped())
    assert (answer.status_code, "is stopping" in answer.json()["error"]["message"]) == (503, True)
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.usefixtures("soon")
def test_what_has_begun_is_cut_off(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(httpx.RemoteProtocolError, match="without sending complete message body"):
        asyncio.run(stopped(begins=True))
    assert "Traceback" not in capfd.readouterr().err
