"""What the doctor found, for people and as data."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from omnicfg.doctor.checks import Check, Status
from omnicfg.doctor.facts import Facts
from omnicfg.report.terminal import Style, one_line, wrap

Section = tuple[str, Sequence[Check]]

_STYLES: Final = {Status.OK: "good", Status.NOTE: "note", Status.PROBLEM: "error"}
_LEAD: Final = "  "
_WIDEST: Final = max(map(len, Status))


def render_health(sections: Iterable[Section], verdict: str, style: Style, width: int | None) -> str:
    """Each subject with a line for what was found, and a line below it for what to do; the verdict last."""
    lines = [line for section in sections for line in _section(*section, style, width)]
    return "".join(f"{line}\n" for line in [*lines, *wrap(one_line(verdict), width)])


def _section(title: str, checks: Sequence[Check], style: Style, width: int | None) -> Iterator[str]:
    yield style("strong", title)
    room = None if width is None else width - len(_LEAD) - _WIDEST - 2
    for check in checks:
        first, *rest = wrap(one_line(check.what), room)
        gap = " " * (_WIDEST - len(check.status) + 2)
        yield f"{_LEAD}{style(_STYLES[check.status], check.status.value)}{gap}{first}"
        below = [*rest, *(wrap(one_line(check.help), room) if check.help else [])]
        yield from (f"{_LEAD}{' ' * (_WIDEST + 2)}{line}" for line in below)
    yield ""


def health_data(facts: Facts, sections: Iterable[Section], can_serve: dict[str, bool]) -> dict[str, Any]:
    """``facts`` as they were found, ``checks`` with their subjects, and what can be served."""
    return {
        "can_serve": can_serve,
        "checks": [
            {"subject": title, "status": check.status.value, "what": check.what, "help": check.help}
            for title, checks in sections
            for check in checks
        ],
        "facts": dataclasses.asdict(facts),
    }
