"""Where a process is killed outright, a watcher ends what it has started and removes its directory."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from omnicfg.serve.child import child
from omnicfg.serve.processes import living, session_members
from omnicfg.serve.runtime import private
from omnicfg.serve.watcher import DONE
from tests.patience import until
from tests.serve.test_supervise import Start, is_gone, start  # noqa: F401 - a fixture

SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)"]
HOLDER = """
import multiprocessing.shared_memory, subprocess, sys, time
memory = multiprocessing.shared_memory.SharedMemory(create=True, size=4096)
print(memory.name, flush=True)
time.sleep(600)
"""


@pytest.fixture
def session() -> Iterator[int]:
    with child(SLEEPER, grace_s=0) as process:
        yield process.pid


def watch(sessions: Sequence[int], *words: str) -> None:
    """A watcher that is told of sessions by a process that has died since; returns when it has started."""
    told = "".join(f"{session}\n" for session in sessions)
    command = [sys.executable, "-m", "omnicfg.serve.watcher", *words]
    subprocess.run(command, input=told, text=True, check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize("behaviours", [(), ("never-ready",), ("stubborn",), ("stubborn-helper",)])
def test_nothing_outlives_a_killed_supervisor(start: Start, behaviours: tuple[str, ...]) -> None:  # noqa: F811
    server = start(*behaviours, grace_s=0.5)
    helper = server.helper()
    server.stop(signal.SIGKILL)
    assert is_gone(helper)
    until(lambda: not of_port(server.port))


@pytest.mark.parametrize("delay_s", [0.0, 0.1, 0.2, 0.3])
def test_a_supervisor_may_be_killed_at_any_moment(start: Start, delay_s: float) -> None:  # noqa: F811
    server = start()
    time.sleep(delay_s)
    server.stop(signal.SIGKILL)
    until(lambda: not of_port(server.port))


def of_port(port: int) -> list[int]:
    """The processes that were started with this port: the supervisor, the server, its helper's parent."""
    found = []
    for process in living():
        try:
            words = Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if str(port).encode() in words:
            found.append(process.pid)
    return found


def test_what_is_told_to_be_done_is_left_alone(session: int, tmp_path: Path) -> None:
    watch([session, DONE], "0", str(tmp_path))
    time.sleep(0.3)
    assert session_members(session) == [session]
    assert tmp_path.exists()


def test_the_directory_goes_too(session: int, tmp_path: Path) -> None:
    folder = tmp_path / "sockets"
    folder.mkdir()
    (folder / "rows.sock").touch()
    watch([session], "0", str(folder))
    assert is_gone(session)
    until(lambda: not folder.exists())


def test_a_directory_that_a_new_server_uses_stays(session: int, tmp_path: Path) -> None:
    folder = tmp_path / "omnicfg/127.0.0.1-8091"
    folder.parent.mkdir(mode=0o700)
    with private(folder):
        watch([session], "0", str(folder))
        assert is_gone(session)
        time.sleep(0.3)
        assert folder.exists()


def test_a_stop_signal_to_everybody_leaves_the_watcher_at_its_work(session: int) -> None:
    reader, writer = os.pipe()
    command = [sys.executable, "-m", "omnicfg.serve.watcher", "0"]
    subprocess.run(command, stdin=reader, check=True, stdout=subprocess.DEVNULL)
    os.close(reader)
    [watcher] = [process.pid for process in living() if _reads(process.pid, writer)]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(watcher, number)
    os.write(writer, f"{session}\n".encode())
    os.close(writer)
    assert is_gone(session)


def _reads(pid: int, writer: int) -> bool:
    """Whether a process's standard input is the other end of a pipe."""
    try:
        theirs, ours = Path(f"/proc/{pid}/fd/0").readlink(), Path(f"/proc/self/fd/{writer}").readlink()
        return pid != os.getpid() and theirs == ours
    except OSError:
        return False


def test_a_watcher_that_was_killed_itself_is_no_trouble_at_the_end() -> None:
    before = set(Path("/proc/self/fd").iterdir())
    with child(SLEEPER, grace_s=0) as process:
        writers = [int(descriptor.name) for descriptor in set(Path("/proc/self/fd").iterdir()) - before]
        watchers = {one.pid for one in living() if any(_reads(one.pid, writer) for writer in writers)}
        for watcher in watchers:
            os.kill(watcher, signal.SIGKILL)
        assert all(map(is_gone, watchers))
    assert watchers
    assert session_members(process.pid) == []


def test_shared_memory_of_killed_processes_is_given_back() -> None:
    """A process that ignores stop signals, as one does that hangs, while its tracker could do its work."""
    stubborn = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n{HOLDER}"
    parent = f"""
import subprocess, sys
print(subprocess.Popen([sys.executable, "-c", {stubborn!r}]).pid, flush=True)
"""
    with child([sys.executable, "-c", parent], grace_s=0, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        holder = int(process.stdout.readline())
        name = process.stdout.readline().decode().strip()
        assert re.match("psm_", name)
        segment = Path("/dev/shm") / name
        assert segment.exists()
    assert is_gone(holder)
    assert session_members(process.pid) == []
    assert not segment.exists()
