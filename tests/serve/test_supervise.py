"""A supervised server is announced when it answers, stopped when asked, and never leaves a process behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from omnicfg.serve.preflight import free_port
from omnicfg.serve.processes import children, session_members
from omnicfg.serve.supervise import Address, _Restarts
from tests.patience import PATIENCE_S, until

Start = Callable[..., "Supervised"]


class Supervised:
    """A running ``supervised.py`` and what it has printed."""

    def __init__(self, log: Path, grace_s: float, restarts: int, behaviours: tuple[str, ...]) -> None:
        self.log = log
        self.port = free_port("127.0.0.1")
        options = [str(self.port), str(grace_s), str(restarts)]
        command = [sys.executable, "-m", "tests.serve.supervised", *options, *behaviours]
        with log.open("w") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)

    @property
    def output(self) -> str:
        return self.log.read_text()

    def wait_for(self, pattern: str) -> re.Match[str]:
        try:
            return until(lambda: re.search(pattern, self.output, re.MULTILINE))
        except AssertionError:
            raise AssertionError(f"{pattern!r} was not printed:\n{self.output}") from None

    def stop(self, number: signal.Signals = signal.SIGINT) -> int:
        self.process.send_signal(number)
        return self.end()

    def end(self) -> int:
        """The exit status, once it has ended."""
        return self.process.wait(timeout=PATIENCE_S)

    def helper(self) -> int:
        return int(self.wait_for(r"^helper (\d+)$")[1])

    def kill_server(self, life: int = 1) -> None:
        """Kill the server when it has answered, in this one of its lives."""
        until(lambda: self.output.count("ready http") == life)
        os.kill(int(re.findall(r"^server (\d+)$", self.output, re.MULTILINE)[-1]), signal.SIGKILL)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Supervised] = []

    def begin(*behaviours: str, grace_s: float = PATIENCE_S, restarts: int = 0) -> Supervised:
        started.append(Supervised(tmp_path / f"log{len(started)}", grace_s, restarts, behaviours))
        return started[-1]

    yield begin
    for supervised in started:
        if supervised.process.poll() is None:
            supervised.process.kill()
            supervised.process.wait()


def is_gone(pid: int) -> bool:
    """Waits until no living process has that id (a zombie that nobody has reaped yet is dead)."""

    def gone() -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
        except OSError:
            return True

    return until(gone)


def test_it_says_once_where_the_server_answers(start: Start) -> None:
    server = start()
    assert server.wait_for(r"^ready (.*)$")[1] == f"http://127.0.0.1:{server.port}"
    server.stop()
    assert server.output.count("ready") == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stop_signal_stops_it_cleanly(start: Start, number: signal.Signals) -> None:
    server = start()
    server.wait_for("^ready")
    assert server.stop(number) == 0
    assert is_gone(server.helper())


def test_a_hangup_that_is_ignored_stops_nothing(start: Start) -> None:
    """As under ``nohup``: the terminal goes, the server stays."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        server = start()
    finally:
        signal.signal(signal.SIGHUP, before)
    server.wait_for("^ready")
    server.process.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        server.process.wait(timeout=1)
    assert server.stop() == 0


def test_the_server_may_finish_what_it_does(start: Start) -> None:
    server = start("finishes")
    server.wait_for("^ready")
    assert server.stop() == 0
    assert "finished" in server.output


def test_it_can_be_stopped_while_it_starts(start: Start) -> None:
    server = start("never-ready")
    helper = server.helper()
    assert server.stop() == 0
    assert "ready" not in server.output
    assert is_gone(helper)


def test_what_has_not_answered_yet_has_nothing_to_finish(start: Start) -> None:
    server = start("never-ready", "stubborn", grace_s=600)
    helper = server.helper()
    assert server.stop() == 0
    assert is_gone(helper)


def test_a_server_that_does_not_stop_is_killed_after_the_grace_period(start: Start) -> None:
    server = start("stubborn", grace_s=0.5)
    server.wait_for("^ready")
    assert server.stop() == 0
    assert is_gone(server.helper())


def test_a_second_signal_does_not_wait_for_the_grace_period(start: Start) -> None:
    server = start("stubborn", grace_s=600)
    server.wait_for("^ready")
    server.process.send_signal(signal.SIGINT)
    server.wait_for("^notice stopping")
    assert server.stop() == 0
    assert is_gone(server.helper())


def test_a_second_signal_counts_from_the_moment_that_the_first_was_answered(start: Start) -> None:
    server = start("stubborn", "impatient", grace_s=600)
    server.wait_for("^ready")
    assert server.stop() == 0
    assert is_gone(server.helper())


def test_processes_that_the_server_leaves_behind_are_killed(start: Start) -> None:
    server = start("stubborn-helper")
    server.wait_for("^ready")
    assert server.stop() == 0
    assert is_gone(server.helper())


def test_what_answers_nobody_is_kept_running_until_it_is_stopped(start: Start) -> None:
    node = start("headless")
    helper = node.helper()
    with pytest.raises(subprocess.TimeoutExpired):
        node.process.wait(timeout=0.5)
    assert node.stop() == 0
    assert "ready" not in node.output
    assert is_gone(helper)


def test_what_answers_nobody_and_ends_by_itself_is_an_error(start: Start) -> None:
    node = start("headless", "dies-early", restarts=3)
    assert node.end() == 2
    assert "ended by itself (exit status 3)" in node.output


def test_a_server_that_dies_while_it_starts_is_an_error(start: Start) -> None:
    server = start("dies-early")
    assert server.end() == 2
    assert "ended by itself (exit status 3)" in server.output
    assert is_gone(server.helper())


def test_a_server_that_dies_later_is_an_error(start: Start) -> None:
    server = start()
    server.kill_server()
    assert server.end() == 2
    assert "was killed by SIGKILL" in server.output
    assert is_gone(server.helper())


def test_a_server_that_dies_is_started_again_as_often_as_asked(start: Start) -> None:
    server = start(restarts=2)
    for life in (1, 2, 3):
        server.kill_server(life)
    assert server.end() == 2
    assert server.output.count("ready http") == 3
    pauses = re.findall(r"was killed by SIGKILL; starting it again in (\S+) s", server.output)
    assert pauses == ["1", "2"]
    assert "error the server was killed by SIGKILL after 2 restarts" in server.output.replace("OC000 ", "")
    helpers = re.findall(r"^helper (\d+)$", server.output, re.MULTILINE)
    assert [is_gone(int(helper)) for helper in helpers] == [True] * 3


def test_a_server_that_has_never_answered_is_not_started_again(start: Start) -> None:
    server = start("dies-early", restarts=5)
    assert server.end() == 2
    assert "starting it again" not in server.output


def test_it_can_be_stopped_between_two_attempts(start: Start) -> None:
    server = start(restarts=9)
    server.kill_server()
    server.wait_for("starting it again in 1 s")
    assert server.stop() == 0


def test_attempts_count_anew_for_a_server_that_has_answered_for_long() -> None:
    again = _Restarts(3)
    assert [again.pause_s(1), again.pause_s(None), again.pause_s(1), again.pause_s(1)] == [1, 2, 4, None]
    assert [again.pause_s(1000), again.pause_s(1)] == [1, 2]


def test_pauses_have_a_limit() -> None:
    again = _Restarts(10)
    assert [again.pause_s(1) for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]


def test_a_session_is_found_whatever_became_of_its_leader() -> None:
    program = "import subprocess, sys; print(subprocess.Popen(['sleep', '600'], stdout=subprocess.DEVNULL).pid)"
    leader = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    orphan = int(leader.communicate()[0])
    assert session_members(leader.pid) == [orphan]
    assert children(leader.pid) == []
    os.kill(orphan, signal.SIGKILL)
    assert is_gone(orphan)
    assert session_members(leader.pid) == []


@pytest.mark.parametrize(
    ("listening_on", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8091"),
        ("0.0.0.0", "http://127.0.0.1:8091"),
        ("::", "http://[::1]:8091"),
        ("somewhere", "http://somewhere:8091"),
    ],
)
def test_a_wildcard_is_reached_through_the_loopback(listening_on: str, url: str) -> None:
    assert Address.of(listening_on, 8091).url == url
