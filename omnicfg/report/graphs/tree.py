"""A graph for a terminal: the files on top of each other, then every stage with what it hands on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeVar

from omnicfg.graph.model import BASE, Graph
from omnicfg.report.graphs._words import file_details, link_details, stage_details, stage_title
from omnicfg.report.terminal import Style, one_line, wrap

_BRANCH, _LAST, _TRUNK, _NOTHING = "├── ", "└── ", "│   ", "    "
_Item = TypeVar("_Item")
_SHORTEST: Final = 16  # columns that a text gets however deep it stands


def render(graph: Graph, style: Style, width: int | None) -> str:
    """The files from the outermost to the innermost, a blank line, the stages."""
    lines = [*_files(graph, style, width), "", *_stages(graph, style, width)]
    return "".join(f"{line}\n" for line in lines)


def _files(graph: Graph, style: Style, width: int | None) -> Iterator[str]:
    """From the top down: the last overlay, what it lies on, and so on to the innermost base."""
    number: int | None = max((at for at, file in enumerate(graph.files) if file.role != BASE), default=None)
    lead, rest = "", ""
    for _ in graph.files:
        if number is None:
            return
        file = graph.files[number]
        yield from _entry(lead, rest, one_line(file.name), file_details(file), style, width)
        number, lead, rest = file.below, rest + _LAST, rest + _NOTHING


def _stages(graph: Graph, style: Style, width: int | None) -> Iterator[str]:
    yield from _entry("", "", f"pipeline {one_line(graph.pipeline)}", [f"on {graph.platform}"], style, width)
    names = {stage.stage_id: stage_title(stage) for stage in graph.stages}
    for stage, is_last in _ends(graph.stages):
        lead, rest = (_LAST, _NOTHING) if is_last else (_BRANCH, _TRUNK)
        yield from _entry(lead, rest, stage_title(stage), stage_details(stage), style, width)
        for link, is_last_link in _ends(graph.links_of(stage.stage_id)):
            below = (_LAST, _NOTHING) if is_last_link else (_BRANCH, _TRUNK)
            title = f"to {names.get(link.target, f'stage {link.target}')}"
            yield from _entry(rest + below[0], rest + below[1], title, link_details(link), style, width)


def _ends(items: Sequence[_Item]) -> Iterator[tuple[_Item, bool]]:
    """Each item, and whether it is the last."""
    return ((item, number == len(items) - 1) for number, item in enumerate(items))


def _entry(lead: str, rest: str, title: str, details: Iterable[str], style: Style, width: int | None) -> Iterator[str]:
    """``lead`` before the first line, ``rest`` before those that it is wrapped into."""
    text = "  ".join([title, ", ".join(details)]).rstrip()
    first, *others = wrap(text, None if width is None else max(width - len(lead), _SHORTEST))
    shown = style("name", title) + style("faint", first[len(title) :]) if first.startswith(title) else first
    yield f"{style('faint', lead)}{shown}"
    yield from (f"{style('faint', rest)}{line}" for line in others)
