"""A signal to stop lets what has been begun be put away."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from omnicfg.interrupt import interruptible
from tests.patience import PATIENCE_S, until

STOPS = (signal.SIGTERM, signal.SIGHUP)


@pytest.mark.parametrize("number", STOPS)
def test_a_signal_to_stop_interrupts(number: signal.Signals) -> None:
    with pytest.raises(KeyboardInterrupt), interruptible():
        os.kill(os.getpid(), number)
    assert signal.getsignal(number) is signal.SIG_DFL


@pytest.mark.parametrize("number", STOPS)
def test_what_is_ignored_stays_so(number: signal.Signals) -> None:
    """As a hangup is under ``nohup``."""
    before = signal.signal(number, signal.SIG_IGN)
    try:
        with interruptible():
            os.kill(os.getpid(), number)
        assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)


def test_a_handler_that_is_there_keeps_its_signal() -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _frame: seen.append(number))
    try:
        with interruptible():
            os.kill(os.getpid(), signal.SIGTERM)
        assert seen == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_in_another_thread_signals_are_left_alone() -> None:
    done: list[object] = []

    def work() -> None:
        with interruptible():
            done.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [signal.SIG_DFL]


def stopped(script: str, target: Path, begun: Callable[[], bool]) -> int:
    """The exit status of a program that is asked to stop (SIGTERM) once it has begun to make ``target``."""
    head = "import sys, time; from pathlib import Path; target = Path(sys.argv[1])\n"
    process = subprocess.Popen([sys.executable, "-c", head + script, str(target)], stderr=subprocess.DEVNULL)
    try:
        until(begun)
        process.terminate()
        return process.wait(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.wait()


def test_a_file_that_is_being_written_leaves_no_draft(tmp_path: Path) -> None:
    script = "from omnicfg.files import take_place; take_place(target, 'new', prove=lambda _: time.sleep(60))"
    (tmp_path / "out.yaml").write_text("old")
    assert stopped(script, tmp_path / "out.yaml", lambda: len(list(tmp_path.iterdir())) == 2) != 0
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"out.yaml": "old"}


def test_what_is_made_once_leaves_no_half_of_it(tmp_path: Path) -> None:
    script = "from omnicfg.cache import make_once; make_once(target, lambda _: time.sleep(60))"
    assert stopped(script, tmp_path / "made", lambda: any(tmp_path.iterdir())) != 0
    assert list(tmp_path.iterdir()) == []
