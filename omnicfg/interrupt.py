"""SIGTERM and SIGHUP as Ctrl-C, so that whoever is stopped in the middle of something can clean up first."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Final

_STOP: Final = (signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """SIGTERM and SIGHUP raise :class:`KeyboardInterrupt` inside, where they would end the process.

    Handlers that are there keep their signals, and a signal that is ignored, as a hangup is under ``nohup``, stays so.
    Signals are the main thread's; in another one nothing is changed.
    """
    ours = threading.current_thread() is threading.main_thread()
    numbers = [number for number in _STOP if ours and signal.getsignal(number) is signal.SIG_DFL]
    try:
        for number in numbers:
            signal.signal(number, _interrupt)
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
