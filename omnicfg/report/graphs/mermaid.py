"""A graph as a Mermaid flowchart (https://mermaid.js.org/syntax/flowchart.html), which GitHub and GitLab draw."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from omnicfg.graph.model import Graph
from omnicfg.report.graphs._words import file_details, link_details, stage_details, stage_title
from omnicfg.report.terminal import Style, one_line

_PLAIN: Final = frozenset(" -_./,:()=+")


def render(graph: Graph, style: Style, width: int | None) -> str:
    """One flowchart with a subgraph of files and a subgraph of stages."""
    del style, width
    return "".join(f"{line}\n" for line in _lines(graph))


def _lines(graph: Graph) -> Iterator[str]:
    yield "flowchart LR"
    yield f"  subgraph files [{_text(['files'])}]"
    for number, file in enumerate(graph.files):
        yield f"    file_{number}[{_text([one_line(file.name), *file_details(file)])}]"
    for number, file in enumerate(graph.files):
        if file.below is not None:
            yield f"    file_{number} -->|{_text([file.by])}| file_{file.below}"
    yield "  end"
    yield f"  subgraph stages [{_text([f'pipeline {one_line(graph.pipeline)} on {graph.platform}'])}]"
    known = {stage.stage_id for stage in graph.stages}
    for stage in graph.stages:
        yield f"    stage_{stage.stage_id}[{_text([stage_title(stage), *stage_details(stage)])}]"
    for number in sorted({end for link in graph.links for end in (link.source, link.target)} - known):
        yield f"    stage_{number}[{_text([f'stage {number}', 'not in the pipeline'])}]"
    for link in graph.links:
        details = link_details(link)
        label = f"|{_text(details)}|" if details else ""
        yield f"    stage_{link.source} {'-->' if link.is_real else '-.->'}{label} stage_{link.target}"
    yield "  end"


def _text(lines: Iterable[str]) -> str:
    """A quoted text; whatever might mean something to Mermaid or to HTML is written as its number."""
    return '"' + "<br/>".join("".join(map(_character, line)) for line in lines) + '"'


def _character(character: str) -> str:
    return character if character.isalnum() or character in _PLAIN else f"#{ord(character)};"
