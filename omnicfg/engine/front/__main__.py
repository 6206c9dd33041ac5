"""The process: ``python -m omnicfg.engine.front FILE``.

Ends with status 0 when it was stopped (requests in flight may finish), 1 when a process that it needs was lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from omnicfg.engine.front.api_key import KeyFirst
from omnicfg.engine.front.app import Front
from omnicfg.engine.front.desk import Desk, Link
from omnicfg.engine.front.metrics import Metrics
from omnicfg.engine.front.processes import Processes, say
from omnicfg.engine.front.pulse import Pulse
from omnicfg.engine.front.setup import Setup


def main() -> int:
    """Serve until stopped; the exit status."""
    return asyncio.run(serve(Setup.read(Path(sys.argv[1]))))


async def serve(setup: Setup) -> int:
    """Everything, until a signal or a loss ends it; the exit status."""
    reasons: list[str] = []
    desk = Desk([Link(job.stage, job.name) for job in setup.jobs])
    metrics = Metrics(desk)
    # vLLM's server hangs up after an error of its own; a connection that was kept would fail the next request for it.
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    pulse = Pulse(httpx.AsyncHTTPTransport(uds=setup.thinker, limits=limits), setup.thinker_stall_s)
    async with httpx.AsyncClient(transport=pulse, base_url="http://thinker", timeout=None) as thinker:

        def fatal(reason: str) -> None:
            reasons.append(reason)
            server.should_exit = True

        processes = Processes(setup, desk, metrics, fatal, lambda: pulse.hangs(thinker))
        front = Front(
            thinker,
            desk,
            metrics,
            voices=setup.voices,
            default_voice=setup.default_voice,
            healthy=lambda: processes.complete,
        )
        server = _Server(setup, KeyFirst(front), processes.let_end)
        for left in (setup.control, setup.thinker):  # of a life before this one; nobody can listen where they lie
            Path(left).unlink(missing_ok=True)
        control = await asyncio.start_unix_server(desk.follow, setup.control, limit=2**24)
        async with control:
            await processes.start()
            try:
                await server.serve()
            finally:
                await processes.stop()
    for reason in reasons:
        say(reason)
    return 1 if reasons else 0


class _Server(uvicorn.Server):
    """uvicorn whose signal handlers only call ``asked`` and ask it to stop; what is behind it is stopped after it."""

    def __init__(self, setup: Setup, app: Any, asked: Callable[[], None]) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                host=setup.host,
                port=setup.port,
                lifespan="off",
                log_level="warning",
                access_log=False,
                timeout_graceful_shutdown=max(1, round(setup.drain_s)),
            )
        )
        self._asked = asked

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._ask)
        yield

    def _ask(self) -> None:
        self._asked()
        self.should_exit = True


if __name__ == "__main__":
    sys.exit(main())
