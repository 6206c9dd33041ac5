"""What is told while measuring: a line a measurement, and on a terminal where it is and how long it will take."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, TextIO

from omnicfg.bench.loads import Load
from omnicfg.bench.report import failures
from omnicfg.report.terminal import width_of

_REDRAW_S: Final = 0.2
_FIRST_GUESS_S: Final = 30.0


class Forecast:
    """How long what is left will take, from what the same loads took before, in the same arm or in others."""

    def __init__(self) -> None:
        self._seconds: dict[str, dict[str, float]] = {}  # by arm and load, the longest
        self._loads: dict[str, Load] = {}
        self._starts: list[float] = []

    def measured(self, arm: str, load: Load, seconds: float) -> None:
        """A load took an arm so long."""
        took = self._seconds.setdefault(arm, {})
        took[load.name] = max(seconds, took.get(load.name, 0.0))
        self._loads[load.name] = load

    def started(self, seconds: float) -> None:
        """A server took so long to answer."""
        self._starts.append(seconds)

    def load(self, arm: str, load: Load) -> float:
        """Seconds that a load may take an arm: the longest that it took; what it took another arm, by how long the two
        took for others that share as this one does; or as many tokens of any.
        """
        if load.name in self._seconds.get(arm, {}):
            return self._seconds[arm][load.name]
        others = [took[load.name] * self._pace(arm, other, load) for other, took in self._of_others(arm, load)]
        if others:
            return max(others)
        known = [(name, seconds) for took in self._seconds.values() for name, seconds in took.items()]
        asked = sum(work(self._loads[name]) for name, _ in known)
        return work(load) * sum(seconds for _, seconds in known) / asked if asked else _FIRST_GUESS_S

    @property
    def start(self) -> float:
        """Seconds that a server may take to start."""
        return max(self._starts, default=_FIRST_GUESS_S)

    def left(self, sessions: Sequence[tuple[str, Sequence[Load]]]) -> float:
        """Seconds for all of these sessions, each the server of an arm and its loads."""
        return sum(self.start + sum(self.load(arm, load) for load in loads) for arm, loads in sessions)

    def _of_others(self, arm: str, load: Load) -> list[tuple[str, Mapping[str, float]]]:
        return [(other, took) for other, took in self._seconds.items() if other != arm and load.name in took]

    def _pace(self, arm: str, other: str, load: Load) -> float:
        """How long this arm takes for a second of the other's; hits make them differ where prompts share something."""
        own, its = self._seconds.get(arm, {}), self._seconds[other]
        shares = bool(load.shared_prefix_tokens)
        both = [name for name in own.keys() & its.keys() if bool(self._loads[name].shared_prefix_tokens) == shares]
        took = sum(its[name] for name in both)
        return sum(own[name] for name in both) / took if took else 1.0


def work(load: Load) -> float:
    """What a load asks of a server, in tokens: one that is answered counts as sixteen that are read."""
    return load.prompts * (load.shared_prefix_tokens + load.own_tokens_mean + 16 * load.output_tokens)


class Progress:
    """Standard error: measurements as lines of a table, and on a terminal one line below that is drawn anew."""

    def __init__(self, stream: TextIO = sys.stderr) -> None:
        self._stream = stream
        self._width = width_of(stream)
        self._drawn = 0.0
        self._status = ""
        self._headed = False

    def status(self, text: str, force: bool = False) -> None:
        """What goes on now; shown on terminals only."""
        now = time.monotonic()
        if self._width is None or (not force and now - self._drawn < _REDRAW_S):
            return
        self._drawn, self._status = now, text[: self._width - 1]
        self._stream.write(f"\r\x1b[K{self._status}")
        self._stream.flush()

    def line(self, text: str) -> None:
        """A line that stays."""
        cleared = "\r\x1b[K" if self._status else ""
        self._stream.write(f"{cleared}{text}\n")
        self._stream.flush()
        self._status = ""

    def measured(self, one: dict[str, Any], left: str) -> None:
        """A measurement as a line of the table."""
        if not self._headed:
            self.line(_row("round", "arm", "load", "hit", "req/s", "TTFT ms", "TPOT ms", "left"))
            self._headed = True
        failed = failures(one)
        errors = f"  {failed} ERRORS" if failed else ""
        hit, rate = _share(one["hit_rate"]), f"{one['requests_per_second']:.3f}"
        times = (_mean(one["ttft_ms"]), _mean(one["tpot_ms"]))
        self.line(_row(str(one["round"]), one["arm"], one["load"], hit, rate, *times, left) + errors)

    def end(self) -> None:
        """Nothing more goes on."""
        if self._status:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._status = ""


def _row(round_: str, arm: str, load: str, *numbers: str) -> str:
    return f"{round_:>5}  {arm:<8}  {load:<20}" + "".join(f"  {number:>8}" for number in numbers)


def duration(seconds: float) -> str:
    """A time as people say it."""
    return (
        f"{seconds:.0f} s"
        if seconds < 100
        else f"{seconds / 60:.0f} min"
        if seconds < 6000
        else f"{seconds / 3600:.1f} h"
    )


def _share(rate: float | None) -> str:
    return "" if rate is None else f"{rate:.1%}"


def _mean(times: dict[str, float] | None) -> str:
    return "" if times is None else f"{times['mean']:.1f}"
