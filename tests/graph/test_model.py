"""The graph of a profile has its files by inheritance, and its stages by what hands what to what."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnicfg.catalog.library import library
from omnicfg.catalog.upstream import pipelines
from omnicfg.compiler import compile_profile, load, pipeline_of
from omnicfg.graph.model import File, Graph, graph_of
from tests.conftest import WriteProfile


def graph(profile: str | Path, *overlays: Path, platform: str = "cuda") -> Graph:
    loaded = load(profile, overlays)
    return graph_of(loaded, compile_profile(loaded, platform, pipeline_of(loaded)))


@pytest.fixture
def chain(profile_file: WriteProfile) -> list[Path]:
    """A base, a profile on it, a base of an overlay, that overlay, and another one."""
    return [
        profile_file("pipeline: qwen3_tts\nasync_chunk: false\nplatforms: {npu: {}, xpu: {}}\n", "base.yaml"),
        profile_file("base_config: base.yaml\n", "profile.yaml"),
        profile_file("stages: [{stage_id: 0}]\n", "lower.yaml"),
        profile_file("base_config: lower.yaml\n", "first.yaml"),
        profile_file("stages: [{stage_id: 1}]\n", "second.yaml"),
    ]


def test_files_lie_on_their_bases_and_overlays_on_what_is_before_them(chain: list[Path]) -> None:
    found = graph(chain[1], chain[3], chain[4]).files
    assert [(Path(file.name).name, file.role, file.below, file.by) for file in found] == [
        ("profile.yaml", "profile", 1, "base_config"),
        ("base.yaml", "base", None, ""),
        ("first.yaml", "overlay", 3, "base_config"),
        ("lower.yaml", "base", None, ""),
        ("second.yaml", "overlay", 2, "--overlay"),
    ]
    assert found[1].platforms == ("npu", "xpu")


def test_an_overlay_without_a_base_lies_on_the_profile(chain: list[Path]) -> None:
    assert graph(chain[1], chain[4]).files[2] == File(str(chain[4]), "overlay", (), 0, "--overlay")


@pytest.mark.parametrize("name", library())
def test_the_links_are_the_pipelines_own(name: str) -> None:
    found = graph(name)
    expected = [
        (source, stage["stage_id"])
        for stage in pipelines()[found.pipeline]["stages"]
        for source in stage["input_sources"]
    ]
    assert [(link.source, link.target) for link in found.links if link.is_real] == expected
    assert all(link.is_real for link in found.links)


def test_a_link_says_its_connector_whichever_end_names_it(profile_file: WriteProfile) -> None:
    shared = "connectors: {a: {name: SharedMemoryConnector}}\nasync_chunk: false\npipeline: qwen3_tts\nstages:\n"
    for text in (
        "[{stage_id: 0, output_connectors: {to_stage_1: a}}]",
        "[{stage_id: 1, input_connectors: {from_stage_0: a}}]",
    ):
        (link,) = graph(profile_file(f"{shared}  {text}\n")).links
        assert (link.connector, link.connector_class, link.in_chunks) == ("a", "SharedMemoryConnector", False)


@pytest.mark.parametrize("edge", ["{from: 0, to: 1}", '{from: "0", to: "1"}'])
def test_an_edge_of_the_profile_is_shared_memory(edge: str, profile_file: WriteProfile) -> None:
    (link,) = graph(profile_file(f"pipeline: qwen3_tts\nedges: [{edge}]\n")).links
    assert (link.connector, link.connector_class, link.is_real) == ("edges", "SharedMemoryConnector", True)


def test_what_the_pipeline_does_not_have_is_told_apart(profile_file: WriteProfile) -> None:
    found = graph(profile_file("pipeline: qwen3_tts\nedges: [{from: 1, to: 7}]\n"))
    assert [(link.source, link.target, link.is_real) for link in found.links] == [(0, 1, True), (1, 7, False)]
    assert [stage.is_configured for stage in found.stages] == [False, False]


@pytest.mark.parametrize(
    "edge",
    [
        "{from: x, to: 1}",
        "{from: -1, to: 0}",
        "{from: true, to: 1}",
        "{to: 1}",
        "3",
        f"{{from: 1, to: '{'9' * 5000}'}}",
    ],
)
def test_an_edge_that_names_no_stage_is_left_out(edge: str, profile_file: WriteProfile) -> None:
    (link,) = graph(profile_file(f"pipeline: qwen3_tts\nedges: [{edge}]\n")).links
    assert link.is_real


def test_the_platform_counts(profile_file: WriteProfile) -> None:
    profile = profile_file(
        "pipeline: qwen3_tts\nstages: [{stage_id: 0}]\nplatforms: {npu: {stages: [{stage_id: 0, devices: '3'}]}}\n"
    )
    assert [graph(profile, platform=name).stages[0].devices for name in ("cuda", "npu")] == [None, "3"]
