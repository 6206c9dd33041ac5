"""The processes of this machine: whose child each one is, which session it belongs to, and how a session is ended."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

_POLL_S: Final = 0.05
_ALONE_S: Final = 1.0
_ASKED_S: Final = 3.0
_TRACKERS_S: Final = 10.0
_TRACKER: Final = b"multiprocessing.resource_tracker"


class Process(NamedTuple):
    """A living process (a zombie is not). Where there is no /proc, its process group stands in for its session."""

    pid: int
    parent: int
    session: int


def session_members(session: int) -> list[int]:
    """The living processes of a session, whatever has become of their parents."""
    return [process.pid for process in living() if process.session == session]


def children(parent: int) -> list[int]:
    """The living children of a process."""
    return [process.pid for process in living() if process.parent == parent]


class Listener(NamedTuple):
    """A process that accepts connections. Its name is that of its program, cut to 15 characters."""

    pid: int
    name: str


def listeners(port: int) -> list[Listener]:
    """Who listens on a TCP port, at whatever address, of those whose files this user may see (proc_pid_fd(5))."""
    sockets = {f"socket:[{inode}]" for inode in _listening(port)}
    return [found for entry in _entries() if sockets and (found := _listener(entry, sockets)) is not None]


def _listening(port: int) -> Iterator[str]:
    """The inodes of the sockets that listen there (proc_pid_net_tcp(5): 0A is the state of those)."""
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in Path("/proc/net", name).read_text().splitlines()[1:]:
                _, local, _, state, *_, inode = line.split()[:10]
                if state == "0A" and int(local.rpartition(":")[2], 16) == port:
                    yield inode


def _listener(entry: Path, sockets: set[str]) -> Listener | None:
    with contextlib.suppress(OSError):  # another user's, or it has ended
        if any(_target(file) in sockets for file in (entry / "fd").iterdir()):
            return Listener(int(entry.name), (entry / "comm").read_text(errors="replace").strip())
    return None


def _target(link: Path) -> str:
    with contextlib.suppress(OSError):
        return str(link.readlink())
    return ""


def end_session(session: int, grace_s: float) -> None:
    """Asks the leader of a session to stop (SIGTERM), waits ``grace_s`` seconds, and leaves nothing of the session."""
    deadline = time.monotonic() + grace_s
    if session in session_members(session):
        _send([session], signal.SIGTERM)
    while session in (members := session_members(session)) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    if session in members:
        _send([session], signal.SIGKILL)
    clear_session(session)


def clear_session(session: int) -> None:
    """Returns when nothing is left of a session whose leader has ended.

    The rest has a second to end by itself, then it is asked to (SIGTERM), and after three more seconds killed. Python's
    trackers of shared memory go last: they give back what the others had no time to, then end by themselves. For that
    they have ten seconds more: on a busy machine they may wait for a core.
    """
    ended = time.monotonic()
    asked = False
    while members := session_members(session):
        passed = time.monotonic() - ended
        if passed >= _ALONE_S and not asked:
            _send(members, signal.SIGTERM)
            asked = True
        if passed >= _ALONE_S + _ASKED_S:
            _send([member for member in members if not _is_tracker(member)], signal.SIGKILL)
        if passed >= _ALONE_S + _ASKED_S + _TRACKERS_S:
            _send(members, signal.SIGKILL)
        time.sleep(_POLL_S)


def _is_tracker(pid: int) -> bool:
    try:
        return _TRACKER in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _send(processes: Iterable[int], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)


def living() -> Iterator[Process]:
    """Every living process."""
    if Path("/proc/self/stat").exists():
        yield from filter(None, map(_read, _entries()))
    else:
        yield from _listed()


def _entries() -> Iterator[Path]:
    """The directories of /proc that are processes'."""
    return (entry for entry in Path("/proc").iterdir() if entry.name.isdecimal())


def _read(entry: Path) -> Process | None:
    """A directory of /proc (proc_pid_stat(5)); ``None`` for a process that has ended."""
    try:
        stat = (entry / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    state, parent, _group, session = stat.rpartition(")")[2].split()[:4]
    return None if state in "ZX" else Process(int(entry.name), int(parent), int(session))


def _listed() -> Iterator[Process]:
    command = ["ps", "-A", "-o", "pid=,ppid=,pgid=,stat="]
    for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
        pid, parent, group, state = line.split()[:4]
        if not state.startswith("Z"):
            yield Process(int(pid), int(parent), int(group))
