"""The dot format is Graphviz' language, as pydot reads it."""

from __future__ import annotations

import pydot
import pytest

from omnicfg.catalog.library import library
from omnicfg.report.graphs.dot import render
from omnicfg.report.terminal import Style
from tests.graph.test_model import graph
from tests.report.graphs.hostile import NAMES, hostile


def read(text: str) -> pydot.Dot:
    parsed = pydot.graph_from_dot_data(text)
    assert parsed is not None
    assert len(parsed) == 1
    return parsed[0]


def clusters(text: str) -> dict[str, pydot.Subgraph]:
    return {str(each.get_name()): each for each in read(text).get_subgraphs()}


def label(item: pydot.Node | pydot.Edge) -> str:
    r"""What Graphviz shows: the quotes taken off, ``\n`` a line break, any other backslash the next character."""
    raw = str(item.get("label")).removeprefix('"').removesuffix('"').replace('\\"', '"')
    return raw.replace("\\\\", "\0").replace("\\n", "\n").replace("\0", "\\")


@pytest.mark.parametrize("name", library())
def test_it_is_read_back_with_every_file_stage_and_link(name: str) -> None:
    drawn = graph(name)
    found = clusters(render(drawn, Style(False), None))
    files, stages = found["cluster_files"], found["cluster_stages"]
    assert len(files.get_nodes()) == len(drawn.files)
    assert len(files.get_edges()) == sum(file.below is not None for file in drawn.files)
    assert [label(node).splitlines()[0] for node in stages.get_nodes()] == [
        f"stage {stage.stage_id} {stage.name}" for stage in drawn.stages
    ]
    assert [(edge.get_source(), edge.get_destination()) for edge in stages.get_edges()] == [
        (f"stage_{link.source}", f"stage_{link.target}") for link in drawn.links
    ]


@pytest.mark.parametrize("name", NAMES)
def test_no_name_breaks_out_of_its_quotes(name: str) -> None:
    found = clusters(render(hostile(name), Style(False), None))
    (file,) = found["cluster_files"].get_nodes()
    first, *rest = label(file).split("\n")
    assert rest == ["profile", "platforms cuda"]
    assert first == name if name.isprintable() else "\\" in first
    assert len(found["cluster_stages"].get_nodes()) == 3, "a stage that a link leads to, and that is none, is there too"
