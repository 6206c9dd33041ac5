"""Of two servers that want one port at once, one is told so before it has started anything."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from omnicfg.serve.ports import _name, claimed
from omnicfg.serve.preflight import free_port

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="claims are names in Linux's abstract namespace")
CLAIM = """
import os, sys, time
from omnicfg.serve.ports import claimed
with claimed(sys.argv[1], int(sys.argv[2])) as claim:
    print(claim.port, *(problem.message for problem in claim.problems), flush=True)
    if sys.argv[3:] == ["exec"]:
        os.execv("/bin/cat", ["cat"])
    sys.stdin.read()
"""


class Other:
    """Another process that claims an address, until it is closed."""

    def __init__(self, host: str, port: int, *words: str) -> None:
        command = [sys.executable, "-c", CLAIM, host, str(port), *words]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def said(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def port() -> int:
    return free_port("127.0.0.1")


@pytest.fixture
def other(port: int) -> Iterator[Other]:
    first = Other("127.0.0.1", port)
    assert first.said() == f"{port}\n"
    yield first
    first.close()


def messages(host: str, port: int) -> list[str]:
    with claimed(host, port) as claim:
        return [f"{problem.message} | {problem.help}" for problem in claim.problems]


def test_who_has_the_port_is_told_although_nobody_listens_yet(port: int, other: Other) -> None:
    pid = other.process.pid
    [message] = messages("127.0.0.1", port)
    what, _, help = message.partition(" | ")
    assert what == f"127.0.0.1:{port} is taken: another `omnicfg serve` (process {pid}) serves there, or is about to"
    assert help == f"Stop that one (`kill {pid}`), or choose another port with `--port` (0 takes a free one)."


@pytest.mark.parametrize("host", ["0.0.0.0", "localhost"])
def test_another_spelling_of_the_address_is_the_same_port(host: str, port: int, other: Other) -> None:
    [message] = messages(host, port)
    assert f"{host}:{port} is taken: another `omnicfg serve` (process {other.process.pid})" in message


def test_all_addresses_are_each_of_them(port: int) -> None:
    with contextlib.closing(Other("0.0.0.0", port)) as everywhere:
        assert everywhere.said() == f"{port}\n"
        [message] = messages("127.0.0.1", port)
        assert f"(process {everywhere.process.pid})" in message


def test_another_address_of_the_machine_has_ports_of_its_own(port: int, other: Other) -> None:
    assert messages("127.0.0.2", port) == []


def test_a_claim_ends_with_its_process_however_that_ends(port: int, other: Other) -> None:
    other.close()
    assert messages("127.0.0.1", port) == []
    assert messages("127.0.0.1", port) == [], "and with its context"


def test_a_program_in_the_place_of_the_process_keeps_the_claim(port: int) -> None:
    """As vLLM-Omni takes the place of ``omnicfg serve``."""
    with contextlib.closing(Other("127.0.0.1", port, "exec")) as first:
        assert first.said() == f"{port}\n"
        [message] = messages("127.0.0.1", port)
        assert f"(process {first.process.pid})" in message


def test_of_many_at_once_one_has_the_port(port: int) -> None:
    all_at_once = [Other("127.0.0.1", port) for _ in range(6)]
    try:
        said = [one.said() for one in all_at_once]
    finally:
        for one in all_at_once:
            one.close()
    [winner] = [one.process.pid for one, text in zip(all_at_once, said, strict=True) if text == f"{port}\n"]
    assert [re.search(r"process (\d+)", text)[1] for text in said if "taken" in text] == [str(winner)] * 5  # type: ignore[index]


def test_one_that_is_about_to_claim_the_port_is_named_too(port: int) -> None:
    """Between the two steps of a claim, its process may wait for a core."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as name:
        name.bind(_name(port, "127.0.0.1"))
        claiming = threading.Timer(0.2, name.listen)
        claiming.start()
        [message] = messages("127.0.0.1", port)
        claiming.join()
    assert f"(process {os.getpid()})" in message


def test_a_free_port_is_claimed_as_well() -> None:
    with claimed("127.0.0.1", 0) as claim:
        assert claim.problems == ()
        [message] = messages("127.0.0.1", claim.port)
        assert f"(process {os.getpid()})" in message


def test_a_port_that_others_use_and_a_host_that_is_none_are_told_as_ever(port: int) -> None:
    with socket.create_server(("127.0.0.1", port)):
        [message] = messages("127.0.0.1", port)
    assert "cannot be listened on: Address already in use" in message
    assert "cannot be listened on" in messages("no-such-host.invalid", port)[0]
    assert "is no name that a machine can have" in messages("a..b", port)[0]
