"""The processes of this machine: whose child each one is, and which session it belongs to."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


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


def living() -> Iterator[Process]:
    """Every living process."""
    root = Path("/proc")
    if (root / "self/stat").exists():
        for entry in root.iterdir():
            process = _read(entry) if entry.name.isdecimal() else None
            if process:
                yield process
    else:
        yield from _listed()


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
