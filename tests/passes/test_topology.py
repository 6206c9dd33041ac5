"""Pass 7: the pipeline's fixed topology, and what it forbids."""

from __future__ import annotations

import pytest

import omnicfg
from omnicfg.errors import ResolveError
from omnicfg.passes.deploy import deploy
from omnicfg.passes.override import apply_overrides, parse_overrides
from omnicfg.passes.platform import apply_platform
from omnicfg.passes.topology import apply_topology, topology_tree
from omnicfg.tree import LayerKind, Mapping, plain
from tests.conftest import WriteProfile
from tests.passes.trees import tree_of

TTS = "pipeline: qwen3_tts\n"


def joined(text: str, pipeline: str = "qwen3_tts", platform: str = "cuda", *settings: str) -> Mapping:
    tree = apply_overrides(apply_platform(deploy(tree_of(text)), platform), parse_overrides(settings))
    return apply_topology(tree, pipeline, platform)


def test_every_stage_of_the_pipeline_is_there() -> None:
    stages = joined("stages: [{stage_id: 1, max_num_seqs: 4}]\n").sequence("stages").mappings()
    assert [stage.mapping("topology").value("model_stage") for stage in stages] == ["qwen3_tts", "code2wav"]
    assert ["deploy" in stage.items for stage in stages] == [False, True]


def test_entries_that_match_no_stage_fall_away() -> None:
    stages = joined("stages: [{stage_id: 5, max_num_seqs: 4}, {stage_id: '0'}]\n").sequence("stages").mappings()
    assert ["deploy" in stage.items for stage in stages] == [False, False]


def test_of_repeated_ids_the_last_counts() -> None:
    tree = joined("stages: [{stage_id: 0, max_num_seqs: 1}, {stage_id: 0, max_num_seqs: 2}]\n")
    assert tree.sequence("stages").mappings()[0].mapping("deploy").value("max_num_seqs") == 2


def test_an_id_that_equals_a_number_matches_as_in_python() -> None:
    stages = joined("stages: [{stage_id: false, max_num_seqs: 3}]\n").sequence("stages").mappings()
    assert stages[0].mapping("deploy").value("max_num_seqs") == 3


def test_topology_knows_its_line_in_the_source() -> None:
    first, _ = topology_tree("qwen3_tts")
    assert first.items["model_stage"].layer.kind is LayerKind.TOPOLOGY
    assert first.items["model_stage"].mark.file.startswith("vllm_omni/")
    assert first.items["model_stage"].mark.line > first.mark.line
    assert first.items["final_output"].layer.kind is LayerKind.DEFAULT


def test_a_single_stage_pipeline_hands_nothing_on() -> None:
    tree = joined("async_chunk: true\n", "voxcpm2")
    node = tree.mapping("deploy").items["async_chunk"]
    assert (plain(node), [plain(lost.node) for lost in node.beaten]) == (False, [True])


@pytest.mark.parametrize("platform", ["npu", "xpu"])
def test_mrv2_is_refused_on_npu_and_xpu(platform: str) -> None:
    with pytest.raises(ResolveError) as refused:
        joined("model_runner: v2\n", platform=platform)
    (reason,) = refused.value.diagnostics
    assert (reason.code, reason.line, reason.column, reason.platform) == ("OC015", 1, 15, platform)
    assert reason.help == "Set `model_runner: v1` in the block of the platform, under `platforms:`."


@pytest.mark.parametrize("platform", ["cuda", "rocm", "musa"])
def test_mrv2_is_taken_elsewhere(platform: str) -> None:
    joined("model_runner: v2\n", platform=platform)


def test_a_platform_block_may_ask_for_the_older_runner() -> None:
    joined("model_runner: v2\nplatforms: {npu: {model_runner: v1}}\n", platform="npu")


def test_async_chunk_needs_a_producer() -> None:
    with pytest.raises(ResolveError) as refused:
        joined("async_chunk: true\n", "glm_image")
    (reason,) = refused.value.diagnostics
    assert (reason.code, reason.line, reason.column) == ("OC016", 1, 14)
    assert reason.help == "Set `async_chunk: false`."


def test_where_async_chunk_is_on_by_default_the_refusal_says_so() -> None:
    with pytest.raises(ResolveError) as refused:
        joined("", "glm_image")
    assert refused.value.diagnostics[0].help == "Set `async_chunk: false` (it is on by default)."


def test_connected_stages_agree_on_async_chunk() -> None:
    with pytest.raises(ResolveError) as refused:
        joined("async_chunk: true\nstages:\n  - {stage_id: 0, async_chunk: false}\n")
    (reason,) = refused.value.diagnostics
    assert (reason.code, reason.line, reason.column) == ("OC017", 3, 32)
    assert reason.message == "stages 0 -> 1 of pipeline qwen3_tts disagree on `async_chunk`"


def test_both_ends_of_an_edge_may_opt_out() -> None:
    joined("stages: [{stage_id: 0, async_chunk: false}, {stage_id: 1, async_chunk: false}]\n")


def test_a_stage_cannot_opt_in() -> None:
    tree = joined("async_chunk: false\nstages: [{stage_id: 0, async_chunk: true}]\n")
    assert tree.mapping("deploy").value("async_chunk") is False


def test_a_setting_for_a_stage_that_the_pipeline_has_not(profile_file: WriteProfile) -> None:
    with pytest.raises(ResolveError, match="OC020 pipeline qwen3_tts has no stage 4"):
        omnicfg.resolve(profile_file(TTS), overrides=["stages.4.max_num_seqs=1"])
