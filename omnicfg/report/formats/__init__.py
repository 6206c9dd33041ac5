"""The formats of a report of findings: one file each, under the name that ``--format`` takes.

A module has ``render(report, colour, width)``, which gives the whole text; what is not for people looks at neither
colour nor width (``None``: lines may be as long as they are).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from omnicfg.registry import module_spelt, spelt_names

if TYPE_CHECKING:
    from omnicfg.findings.review import Report

Render = Callable[["Report", bool, int | None], str]


def format_names() -> tuple[str, ...]:
    """What a report can be rendered as; imports none of it."""
    return spelt_names(__name__)


def renderer(name: str) -> Render:
    """What renders a report as one of these."""
    render: Render = module_spelt(__name__, name).render
    return render
