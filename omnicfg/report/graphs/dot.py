"""A graph in Graphviz' language (https://graphviz.org/doc/info/lang.html)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from omnicfg.graph.model import Graph
from omnicfg.report.graphs._words import file_details, link_details, stage_details, stage_title
from omnicfg.report.terminal import Style, one_line


def render(graph: Graph, style: Style, width: int | None) -> str:
    """One digraph with a cluster of files and a cluster of stages."""
    del style, width
    return "".join(f"{line}\n" for line in _lines(graph))


def _lines(graph: Graph) -> Iterator[str]:
    yield f"digraph {_text([one_line(graph.profile)])} {{"
    yield "  rankdir=LR;"
    yield '  node [shape=box, fontname="sans-serif"];'
    yield '  edge [fontname="sans-serif", fontsize=10];'
    yield "  subgraph cluster_files {"
    yield '    label="files";'
    for number, file in enumerate(graph.files):
        yield f"    file_{number} [label={_text([one_line(file.name), *file_details(file)])}, shape=note];"
    for number, file in enumerate(graph.files):
        if file.below is not None:
            yield f"    file_{number} -> file_{file.below} [label={_text([file.by])}];"
    yield "  }"
    yield "  subgraph cluster_stages {"
    yield f"    label={_text([f'pipeline {one_line(graph.pipeline)} on {graph.platform}'])};"
    known = {stage.stage_id for stage in graph.stages}
    for stage in graph.stages:
        look = "" if stage.is_configured else ", style=dashed"
        yield f"    stage_{stage.stage_id} [label={_text([stage_title(stage), *stage_details(stage)])}{look}];"
    for number in sorted({end for link in graph.links for end in (link.source, link.target)} - known):
        yield f"    stage_{number} [label={_text([f'stage {number}', 'not in the pipeline'])}, style=dashed];"
    for link in graph.links:
        look = "" if link.is_real else ", style=dashed"
        yield f"    stage_{link.source} -> stage_{link.target} [label={_text(link_details(link))}{look}];"
    yield "  }"
    yield "}"


def _text(lines: Iterable[str]) -> str:
    r"""A quoted text, in which only ``"`` and ``\`` mean something."""
    escaped = (line.replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return '"' + "\\n".join(escaped) + '"'
