"""Waiting for what has to happen, and time limits that hold on a machine that has other things to do.

No test waits for a while and hopes: it waits for what it needs, and only gives up where that will not come any more. A
limit on what something takes is one on its CPU time, at best of a few runs: whatever else goes on can only add to it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

PATIENCE_S: Final = 60.0
_POLL_S: Final = 0.01
_RUNS: Final = 3


def until(condition: Callable[[], T | None], seconds: float = PATIENCE_S, poll_s: float = _POLL_S) -> T:
    """What ``condition`` gives, once that is true; an ``AssertionError`` with the last it gave where it never is."""
    deadline = time.monotonic() + seconds
    while True:
        if found := condition():
            return found
        assert time.monotonic() < deadline, f"did not come within {seconds:g} s: {found!r}"
        time.sleep(poll_s)


async def until_so(condition: Callable[[], T | None], seconds: float = PATIENCE_S) -> T:
    """:func:`until`, while everything else of the event loop goes on."""
    deadline = time.monotonic() + seconds
    while True:
        if found := condition():
            return found
        assert time.monotonic() < deadline, f"did not come within {seconds:g} s: {found!r}"
        await asyncio.sleep(_POLL_S)


def at_best(measure: Callable[[], float], enough: float) -> float:
    """The least of a few measurements; no more of them once one is no more than ``enough``."""
    least = measure()
    for _ in range(_RUNS - 1):
        if least <= enough:
            break
        least = min(least, measure())
    return least


def in_cpu_s(limit: float, task: Callable[[], T]) -> T:
    """What a task gives that takes no more CPU time of this process than that, at best of a few runs."""
    given: list[T] = []

    def spent() -> float:
        start = time.process_time()
        given.append(task())
        return time.process_time() - start

    least = at_best(spent, limit)
    assert least <= limit, f"it took {least:.2f} s of CPU time, and {limit:g} s are enough"
    return given[-1]
