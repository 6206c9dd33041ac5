"""Running a server as a child: waiting until it answers, passing signals on, and leaving no process behind."""

from __future__ import annotations

import http.client
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any, Final, NamedTuple, Self

from omnicfg.errors import ServeError
from omnicfg.serve.child import child
from omnicfg.serve.launch import Launch

_STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
UNREADY_STOP_S: Final = 3.0
"""A server that has not answered yet has nothing to finish."""
_POLL_S: Final = 0.25
_NOTICE_S: Final = 10.0
_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 30.0
_STEADY_S: Final = 300.0
"""A server that has answered for so long is not one that dies again and again."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens, as its clients reach it from this machine."""

    host: str
    port: int

    @classmethod
    def of(cls, listen_host: str, port: int) -> Self:
        """A wildcard address is reached through the loopback of its family."""
        loopback = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}
        return cls(loopback.get(listen_host, listen_host), port)

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    def is_healthy(self) -> bool:
        """Whether ``GET /health`` answers 200 within two seconds."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=2)
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


def supervise(
    launch: Launch, address: Address | None, ready: Say, notice: Say, grace_s: float, restarts: int = 0
) -> None:
    """Runs the launch until someone stops it (SIGINT, SIGTERM, SIGHUP, the last not under ``nohup``); then nothing of
    it is left.

    ``ready`` is told the URL once the server answers; ``notice`` is told what goes on meanwhile. What has no
    ``address`` never answers, and is just kept running. When asked to stop, the server has ``grace_s`` seconds to
    finish what it has begun to answer; a second signal ends it at once.

    A server that has answered and ends by itself is started again up to ``restarts`` times in a row, after pauses that
    double. Raises :class:`ServeError` where it ends by itself otherwise.
    """
    again = _Restarts(restarts)
    with _Signals() as signals:
        while (end := _run(launch, address, signals, ready, notice, grace_s)) is not None:
            pause_s = again.pause_s(end.answered_s)
            if pause_s is None:
                raise ServeError(f"the server {_ending(end.status)}{again.told}; its own messages are above")
            notice(f"the server {_ending(end.status)}; starting it again in {pause_s:g} s")
            if signals.stopped_within(pause_s):
                return


class _End(NamedTuple):
    """How a server ended by itself: its status, and for how long it had answered (``None``: never)."""

    status: int
    answered_s: float | None


class _Restarts:
    """How often a server is started again. One that has answered for long enough has all attempts before it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._used = 0
        self._ever_answered = False

    @property
    def told(self) -> str:
        """What to say of the attempts so far."""
        return f" after {self._used} restart{'s' if self._used > 1 else ''}" if self._used else ""

    def pause_s(self, answered_s: float | None) -> float | None:
        """How long to wait before the next attempt; ``None`` where there is none left, or it has never answered."""
        self._ever_answered = self._ever_answered or answered_s is not None
        if (answered_s or 0) >= _STEADY_S:
            self._used = 0
        if not self._ever_answered or self._used >= self._limit:
            return None
        self._used += 1
        return min(_FIRST_PAUSE_S * 2.0 ** (self._used - 1), _LONGEST_PAUSE_S)


def _run(
    launch: Launch, address: Address | None, signals: _Signals, ready: Say, notice: Say, grace_s: float
) -> _End | None:
    """One life of the server; ``None`` where it was stopped."""
    answers_since = None
    output = sys.stderr.fileno()
    with child(
        launch.command, launch.environment(), grace_s=grace_s, directory=launch.directory, stdout=output
    ) as process:
        if address is not None and _until_ready(process, address, signals, notice):
            answers_since = time.monotonic()
            ready(address.url)
        while not signals.stopping and process.poll() is None:
            signals.wait(None)
        if not signals.stopping:
            answered_s = None if answers_since is None else time.monotonic() - answers_since
            return _End(process.wait(), answered_s)
        asked = signals.stops
        notice("stopping")
        has_requests = address is None or answers_since is not None
        _stop(process, signals, asked, grace_s if has_requests else UNREADY_STOP_S)
        return None


def _until_ready(process: subprocess.Popen[bytes], address: Address, signals: _Signals, notice: Say) -> bool:
    """Waits for the server's first healthy answer; False where it has ended or is to be stopped."""
    started = time.monotonic()
    next_notice = started + _NOTICE_S
    while process.poll() is None and not signals.stopping:
        if address.is_healthy():
            return process.poll() is None
        if time.monotonic() >= next_notice:
            notice(f"starting, {time.monotonic() - started:.0f} s so far")
            next_notice += _NOTICE_S
        signals.wait(_POLL_S)
    return False


def _stop(process: subprocess.Popen[bytes], signals: _Signals, asked: int, grace_s: float) -> None:
    """Asks the server to end and waits: for its end, a signal after those ``asked``, or the end of the grace period."""
    process.terminate()
    deadline = time.monotonic() + grace_s
    while process.poll() is None and signals.stops == asked and time.monotonic() < deadline:
        signals.wait(min(_POLL_S, grace_s))


def _ending(status: int) -> str:
    return f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended by itself (exit status {status})"


# --------------------------------------------------------------------------------------------------- signals


class _Signals:
    """Signals as events that can be waited for, the child's end (SIGCHLD) among them."""

    def __init__(self) -> None:
        self.stops = 0
        self._before: dict[signal.Signals, Any] = {}

    @property
    def stopping(self) -> bool:
        return self.stops > 0

    def __enter__(self) -> Self:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        self._wakeup_before = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for number in (*_STOP_SIGNALS, signal.SIGCHLD):
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # ignored under `nohup`
                self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup_before)
        os.close(self._reader)
        os.close(self._writer)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if number != signal.SIGCHLD:
            self.stops += 1

    def stopped_within(self, timeout_s: float) -> bool:
        """Whether a stop signal comes within so many seconds; returns as soon as it does."""
        deadline = time.monotonic() + timeout_s
        while not self.stopping and (left := deadline - time.monotonic()) > 0:
            self.wait(left)
        return self.stopping

    def wait(self, timeout_s: float | None) -> None:
        """Returns after the next signal, or after ``timeout_s`` seconds."""
        if select.select([self._reader], [], [], timeout_s)[0]:
            os.read(self._reader, 4096)
