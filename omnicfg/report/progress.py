"""That something is going on, told at a terminal when it takes more than a second, and gone when it is done."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TextIO, TypeVar

from omnicfg.report.terminal import one_line, width_of

if TYPE_CHECKING:
    import threading

_Item = TypeVar("_Item")

_AFTER_S: Final = 1.0
_EVERY_S: Final = 0.2
_CLEAR: Final = "\r\x1b[K"


class Work:
    """What goes on: steps that are counted as they begin."""

    def __init__(self, what: str, total: int) -> None:
        self._what = what
        self._total = total
        self._done = 0
        self._now = ""

    def step(self, name: object = "") -> None:
        """The next one begins."""
        self._done += 1
        self._now = str(name)

    def each(self, items: Collection[_Item]) -> Iterator[_Item]:
        """The items, one step each."""
        self._total = len(items)
        for item in items:
            self.step(item)
            yield item

    def line(self, seconds: float, width: int) -> str:
        """``checking profiles: 12 of 110, base.yaml (3 s)``, cut to a terminal's width."""
        count = f": {self._done} of {self._total}" if self._total > 1 else ""
        name = f", {self._now}" if self._now and self._total > 1 else ""
        text = one_line(f"{self._what}{count}{name}")
        time_told = f" ({seconds:.0f} s)"
        return text[: max(0, width - 1 - len(time_told))] + time_told


@contextmanager
def working(what: str, total: int = 1, stream: TextIO | None = None) -> Iterator[Work]:
    """Within it, ``what`` is told on standard error where that is a terminal; nothing else may be written meanwhile."""
    screen = sys.stderr if stream is None else stream
    work = Work(what, total)
    width = width_of(screen)
    if width is None or os.environ.get("TERM") == "dumb":
        yield work
        return
    import threading

    done = threading.Event()
    teller = threading.Thread(target=_tell, args=(work, screen, width, done), daemon=True)
    teller.start()
    try:
        yield work
    finally:
        done.set()
        teller.join()


def _tell(work: Work, screen: TextIO, width: int, done: threading.Event) -> None:
    start, wait, drawn = time.monotonic(), _AFTER_S, False
    while not done.wait(wait):
        screen.write(f"{_CLEAR}{work.line(time.monotonic() - start, width)}")
        screen.flush()
        wait, drawn = _EVERY_S, True
    if drawn:
        screen.write(_CLEAR)
        screen.flush()
