"""The formats of a graph: one file each, under the name that ``--format`` takes.

A module has ``render(graph, style, width)``, which gives the whole text; what is not for people looks at neither style
nor width.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from omnicfg.registry import module_spelt, spelt_names

if TYPE_CHECKING:
    from omnicfg.graph.model import Graph
    from omnicfg.report.terminal import Style

Render = Callable[["Graph", "Style", int | None], str]


def format_names() -> tuple[str, ...]:
    """What a graph can be rendered as; imports none of it."""
    return spelt_names(__name__)


def renderer(name: str) -> Render:
    """What renders a graph as one of these."""
    render: Render = module_spelt(__name__, name).render
    return render
