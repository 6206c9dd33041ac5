"""Speech about pictures on GPUs: which comparisons are run, kept and told of. What they say needs the GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from benchmarks.engine.support import Budget
from benchmarks.gpu.parts import LATE, Context, parts


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The runs that were asked for; compiled, codes differ, and the last one takes too long the first time."""
    found: list[str] = []

    def run(_: Context, command: Sequence[str], log: Path, **__: Any) -> int:
        name = command[3]
        log.write_text(f"{name}: told\n")
        found.append(name)
        if name == "parity:few" and found.count(name) == 1:
            return LATE
        return int(name == "parity:graphs")

    monkeypatch.setattr(Context, "run", run)
    return found


def test_each_comparison_is_run_once_and_told(tmp_path: Path, ran: list[str]) -> None:
    context, part = Context(tmp_path, Budget(300), 1, True, Event()), parts()["talker"]
    part.run(context)
    assert part.table(context) == (
        ["reference: told", "parity:eager: told", "parity:graphs: told", "result-parity-few: missing"],
        False,
    )
    part.run(context)
    assert ran == ["reference", "parity:eager", "parity:graphs", "parity:few", "parity:few"]
    assert part.table(context)[0][-1] == "parity:few: told"
    assert part.table(context)[1] is False, "codes differed"


def test_all_right_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context, part = Context(tmp_path, Budget(300), 1, True, Event()), parts()["talker"]

    def right(_: Context, __: Sequence[str], log: Path, **___: Any) -> int:
        log.write_text("12 of 12\n")
        return 0

    monkeypatch.setattr(Context, "run", right)
    part.run(context)
    assert part.table(context) == (["12 of 12"] * 4, True)


def test_a_server_that_was_not_asked_yet_is_missing(tmp_path: Path) -> None:
    context = Context(tmp_path, Budget(300), 1, True, Event())
    assert parts()["media"].table(context) == (["server: missing"], False)
