"""A server to be measured: one that is started for it, as ``omnicfg serve`` starts it, or one that runs already."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from omnicfg.bench.consumer import Consumer
from omnicfg.bench.metrics import Watch
from omnicfg.errors import ServeError
from omnicfg.serve.child import child
from omnicfg.serve.launch import Launch
from omnicfg.serve.processes import end_session
from omnicfg.serve.runtime import private
from omnicfg.serve.supervise import UNREADY_STOP_S, Address

START_S: Final = 900.0
_STOP_S: Final = 40.0
_POLL_S: Final = 0.2
_SHOWN: Final = 2000


@dataclass(frozen=True, slots=True)
class Server:
    """A server that answers. ``session`` and ``log`` are those of one that was started here.

    ``consumer`` takes its hidden states in, where requests ask for them.
    """

    watch: Watch
    model: str
    start_s: float | None = None
    session: int | None = None
    log: Path | None = None
    consumer: Consumer | None = None

    @property
    def url(self) -> str:
        return self.watch.url


@contextlib.contextmanager
def started(launch: Launch, address: Address, log: Path, waiting: Callable[[float], None]) -> Iterator[Server]:
    """The launch, once it answers; at the end nothing of it is left. ``waiting`` is told the seconds so far.

    Raises :class:`ServeError` with the end of its log where it does not come to answer.
    """
    launch.write_files()
    with (
        private(launch.directory) if launch.directory else contextlib.nullcontext(),
        log.open("w") as output,
        child(
            launch.command,
            launch.environment(),
            grace_s=UNREADY_STOP_S,  # nobody waits any more for what is in flight
            directory=launch.directory,
            stdout=output,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        began = time.monotonic()
        grace_s = UNREADY_STOP_S
        try:
            _wait(process, address, log, began, waiting)
            grace_s = _STOP_S
            watch = Watch(address.url)
            yield Server(watch, watch.model(), round(time.monotonic() - began, 1), process.pid, log)
        finally:
            end_session(process.pid, grace_s)


def _wait(
    process: subprocess.Popen[bytes], address: Address, log: Path, began: float, waiting: Callable[[float], None]
) -> None:
    while process.poll() is None:
        if address.is_healthy():
            return
        passed = time.monotonic() - began
        if passed > START_S:
            raise ServeError(f"the server did not answer within {START_S:.0f} s", f"Its own messages: {log}")
        waiting(passed)
        time.sleep(_POLL_S)
    text = log.read_text(errors="replace")
    raise ServeError(
        f"the server ended before it answered (exit status {process.returncode}):\n{text[-_SHOWN:]}",
        f"Its own messages: {log}",
    )
