"""The processes behind the front: vLLM's server and a worker for each later stage, watched and started again."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Final

from omnicfg.engine.front.desk import Desk, Link
from omnicfg.engine.front.metrics import Metrics
from omnicfg.engine.front.setup import Setup
from omnicfg.engine.transport import RowReceiver, Rows, TransportError
from omnicfg.engine.worker import Job

_WORKER: Final = ("-m", "omnicfg.engine.worker")
_WATCH_S: Final = 0.25
_STEADY_S: Final = 60.0
_PAUSE_S: Final = 0.5
_STOP_S: Final = 15.0
_RETRY_S: Final = 0.1


class Processes:
    """Starts them, ends them, and calls ``fatal`` with a reason when the front cannot go on without one.

    ``hangs`` returns when stage 0 hangs: how that shows.
    """

    def __init__(
        self,
        setup: Setup,
        desk: Desk,
        metrics: Metrics,
        fatal: Callable[[str], None],
        hangs: Callable[[], Coroutine[Any, Any, str]],
    ) -> None:
        self._setup, self._desk, self._metrics, self._fatal = setup, desk, metrics, fatal
        self._hangs = hangs
        self._stopping = self._may_end = False
        self._thinker: asyncio.subprocess.Process | None = None
        self._keepers: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start everything; returns at once."""
        setup = self._setup
        self._thinker = await asyncio.create_subprocess_exec(
            *setup.command, env={**os.environ, **setup.thinker_env}, stdin=asyncio.subprocess.DEVNULL
        )
        self._keepers.append(asyncio.create_task(self._keep_thinker(self._thinker)))
        for number, (job, link) in enumerate(zip(setup.jobs, self._desk.links, strict=True)):
            environment = setup.environments[number] if setup.environments else {}
            self._keepers.append(asyncio.create_task(self._keep(job, link, dict(environment))))
        listener = _Listener(setup.jobs[-1].rows_out, self._desk, asyncio.get_running_loop())
        threading.Thread(target=listener.run, name="audio", daemon=True).start()

    @property
    def complete(self) -> bool:
        """Whether every process is there and takes requests."""
        return self._thinker is not None and self._thinker.returncode is None and self._desk.available

    def let_end(self) -> None:
        """The front was asked to stop, and so perhaps was everybody: vLLM then ends once its texts are whole, although
        some are still being spoken.
        """
        self._may_end = True

    async def stop(self) -> None:
        """End everything: vLLM may finish what it has to, the others have nothing to finish without it."""
        self._stopping = True
        if self._thinker is not None and self._thinker.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._thinker.send_signal(signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._thinker.wait(), self._setup.drain_s + _STOP_S)
            if self._thinker.returncode is None:
                self._thinker.kill()
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)

    async def _keep_thinker(self, process: asyncio.subprocess.Process) -> None:
        ended, hanging = asyncio.create_task(process.wait()), asyncio.create_task(self._hangs())
        try:
            await asyncio.wait({ended, hanging}, return_when=asyncio.FIRST_COMPLETED)
            if hanging.done():
                process.kill()
            status = await ended
        finally:
            hanging.cancel()
        if not self._stopping and not (self._may_end and status == 0):
            how = hanging.result() if hanging.done() and not hanging.cancelled() else None
            stage = f"stage 0{_place(self._setup.thinker_env)}"
            self._desk.fail_all(f"{stage} {how or 'has died'}")
            self._fatal(f"{stage} {how or f'ended by itself (status {status})'}")

    async def _keep(self, job: Job, link: Link, environment: dict[str, str]) -> None:
        """One stage, for as long as the front is there."""
        failures = 0
        stage = f"stage {job.stage} ({job.name}){_place(environment)}"
        while True:
            started = time.monotonic()
            why = await self._live(job, link, environment)
            self._desk.fail_all(f"{stage} {why}")
            failures = 1 if time.monotonic() - started > _STEADY_S else failures + 1
            if failures > self._setup.restarts:
                self._fatal(f"{stage} {why}, {failures} times in a row")
                return
            say(f"{stage} {why}; starting it again")
            self._metrics.restarts.labels(job.name).inc()
            await asyncio.sleep(_PAUSE_S * failures)

    async def _live(self, job: Job, link: Link, environment: dict[str, str]) -> str:
        """One life of a stage: how it ended, or that it never began."""
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *_WORKER,
                env={**os.environ, **environment, "OMNICFG_STAGE": job.name},  # tells processes apart in a listing
                stdin=asyncio.subprocess.PIPE,
            )
        except OSError as error:  # no memory for it, or no process more for this user
            return f"cannot be started: {error.strerror}"
        ended = asyncio.create_task(process.wait())
        try:
            assert process.stdin is not None
            process.stdin.write(job.to_json().encode())
            process.stdin.close()
            silence = _Silence(link)
            while not ended.done():
                await asyncio.wait({ended}, timeout=_WATCH_S)
                if silence.looked_s() > self._setup.stall_s:
                    return f"was silent for {self._setup.stall_s:g} s and was ended"
            return f"died (status {ended.result()})"
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
            ended.cancel()
            link.writer, link.connected = None, False


def _place(environment: Mapping[str, str]) -> str:
    """Where a stage runs, in words: the first of the devices that it sees; behind it may stand those of others."""
    device = environment.get("CUDA_VISIBLE_DEVICES", "").partition(",")[0]
    return f" on device {device}" if device else ""


class _Silence:
    """How long a stage has said nothing, in looks of :data:`_WATCH_S` each.

    No clock tells it: what a stage said while the front was held up itself, as on a machine that stands still, has come
    but was not read yet when the front looks again.
    """

    def __init__(self, link: Link) -> None:
        self._link, self._heard, self._looks = link, link.heard, 0

    def looked_s(self) -> float:
        """Look; seconds of silence so far. A stage that is not connected is not silent."""
        link = self._link
        is_silent = link.writer is not None and link.heard == self._heard
        self._looks = self._looks + 1 if is_silent else 0
        self._heard = link.heard
        return self._looks * _WATCH_S


class _Listener:
    """Takes in the last stage's samples, in a thread of its own, for as long as the process lives."""

    def __init__(self, path: str, desk: Desk, loop: asyncio.AbstractEventLoop) -> None:
        self._path, self._desk, self._loop = Path(path), desk, loop

    def run(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            while True:
                self._listen()

    def _listen(self) -> None:
        try:
            receiver = RowReceiver(self._path, timeout=3600.0)
        except (TransportError, OSError):
            time.sleep(_RETRY_S)
            return
        with receiver:
            self._set_receiving(receiving=True)
            while (messages := receiver.receive()) is not None:
                for message in messages:
                    key = message.key or message.request
                    if isinstance(message, Rows):
                        self._loop.call_soon_threadsafe(self._desk.arrived, key, bytes(message.data))
                    else:
                        frames = int(message.reason.rpartition(" ")[2])
                        self._loop.call_soon_threadsafe(self._desk.ended, key, frames)
        self._set_receiving(receiving=False)

    def _set_receiving(self, *, receiving: bool) -> None:
        self._loop.call_soon_threadsafe(setattr, self._desk, "receiving", receiving)


def say(text: str) -> None:
    """To people, on standard error."""
    print(f"omnicfg front: {text}", file=sys.stderr, flush=True)
