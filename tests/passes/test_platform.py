"""Pass 5: a platform's block, one level deep."""

from __future__ import annotations

from typing import Any

import pytest

from omnicfg.errors import ResolveError
from omnicfg.passes.deploy import deploy
from omnicfg.passes.platform import apply_platform
from omnicfg.tree import LayerKind, Mapping, plain
from tests.passes.trees import tree_of

STAGE = "stages: [{stage_id: 0, devices: '0', env: {A: 1, B: 1}, max_num_seqs: 4, engine_extras: {swap_space: 1}}]\n"


def on(platform: str, block: str, head: str = STAGE) -> Mapping:
    """The deploy tree on a platform, for a profile with this block for npu."""
    return apply_platform(deploy(tree_of(f"{head}platforms:\n  npu: {block}\n")), platform)


def stage(block: str, head: str = STAGE) -> dict[str, Any]:
    """The first stage on npu."""
    found: dict[str, Any] = plain(on("npu", block, head).sequence("stages").items[0])
    return found


def test_a_block_touches_only_its_platform() -> None:
    block = "{model_runner: v1, stages: [{stage_id: 0, max_num_seqs: 1}]}"
    assert stage(block)["max_num_seqs"] == 1
    for platform in ("cuda", "rocm", "xpu", "musa"):
        tree = on(platform, block)
        assert plain(tree) == plain(deploy(tree_of(STAGE)).without("platforms"))


def test_the_blocks_themselves_are_gone() -> None:
    assert "platforms" not in on("npu", "{model_runner: v1}").items


@pytest.mark.parametrize("block", ["null", "{}", "{stages: []}", "{stages: {}}", "{other: 1}"])
def test_a_block_that_says_nothing(block: str) -> None:
    assert plain(on("npu", block)) == plain(deploy(tree_of(STAGE)).without("platforms"))


def test_only_the_runner_and_the_stages_are_read() -> None:
    tree = on("npu", "{model_runner: v2, async_chunk: false, session_mode: duplex, enable_prefix_caching: true}")
    assert tree.value("model_runner") == "v2"
    assert (tree.value("async_chunk"), tree.value("session_mode")) == (True, "turn")
    assert tree.value("enable_prefix_caching") is None


def test_flat_keys_go_over_the_stages_own() -> None:
    found = stage("{stages: [{stage_id: 0, devices: '1', max_num_seqs: 8, swap_space: 2, num_replicas: 3}]}")
    assert (found["devices"], found["max_num_seqs"], found["num_replicas"]) == ("1", 8, 3)
    assert found["engine_extras"] == {"swap_space": 2}


def test_env_merges_one_level_and_null_devices_do_nothing() -> None:
    found = stage("{stages: [{stage_id: 0, devices: null, env: {B: 2, C: 2}}]}")
    assert (found["devices"], found["env"]) == ("0", {"A": 1, "B": 2, "C": 2})


def test_null_unsets_other_fields() -> None:
    assert stage("{stages: [{stage_id: 0, max_num_seqs: null}]}")["max_num_seqs"] is None


def test_engine_args_leave_their_flat_siblings_unread() -> None:
    found = stage("{stages: [{stage_id: 0, max_num_seqs: 8, devices: '1', engine_args: {enforce_eager: true}}]}")
    assert (found["max_num_seqs"], found["devices"], found["enforce_eager"]) == (4, "0", True)


def test_runtime_is_read_beside_engine_args() -> None:
    block = "{stages: [{stage_id: 0, engine_args: {}, runtime: {devices: '1', num_replicas: 2, env: {A: 2}}}]}"
    found = stage(block)
    assert (found["devices"], found["num_replicas"], found["env"]) == ("1", 2, {"A": 2, "B": 1})


def test_sampling_parameters_merge_one_level_only() -> None:
    head = "stages: [{stage_id: 0, default_sampling_params: {temperature: 1.0, extra: {a: 1, b: 1}}}]\n"
    block = "{stages: [{stage_id: 0, default_sampling_params: {top_k: 5, extra: {b: 2}}}]}"
    assert stage(block, head)["default_sampling_params"] == {"temperature": 1.0, "top_k": 5, "extra": {"b": 2}}


def test_other_blocks_are_replaced() -> None:
    head = "stages: [{stage_id: 0, compilation_config: {a: 1, b: 1}}]\n"
    tree = stage("{stages: [{stage_id: 0, compilation_config: {b: 2}}]}", head)
    assert tree.get("compilation_config", tree["engine_extras"].get("compilation_config")) == {"b": 2}


def test_entries_for_stages_that_are_not_listed_are_dropped() -> None:
    tree = on("npu", "{stages: [{stage_id: 1, max_num_seqs: 1}, {stage_id: '0', max_num_seqs: 1}]}")
    assert len(tree.sequence("stages").items) == 1
    assert tree.sequence("stages").mappings()[0].value("max_num_seqs") == 4


def test_a_repeated_entry_goes_over_the_one_before() -> None:
    found = stage(
        "{stages: [{stage_id: 0, max_num_seqs: 8, env: {A: 2}}, {stage_id: 0, max_num_seqs: 9, env: {B: 2}}]}"
    )
    assert (found["max_num_seqs"], found["env"]) == (9, {"A": 2, "B": 2})


def test_a_value_of_a_block_belongs_to_the_platforms_layer_and_keeps_what_it_beat() -> None:
    tree = on("npu", "{model_runner: v2, stages: [{stage_id: 0, max_num_seqs: 8}]}")
    node = tree.sequence("stages").mappings()[0].items["max_num_seqs"]
    assert (node.layer.kind, node.layer.name, node.mark.line) == (LayerKind.PLATFORM, "npu", 3)
    assert [(plain(lost.node), lost.reason) for lost in node.beaten] == [(4, "set for platform npu")]
    assert tree.items["model_runner"].layer.kind is LayerKind.PLATFORM


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ("5", r"3:8: OC008 `platforms\.npu` is a single value"),
        ("{model_runner: v3}", "3:23: OC014 `model_runner` is 'v3'"),
        ("{stages: 5}", r"3:17: OC008 `platforms\.npu\.stages` is not a list"),
        ("{stages: null}", "3:17: OC008 "),
        ("{stages: [5]}", r"3:18: OC008 `platforms\.npu\.stages\[\]` is a single value"),
        ("{stages: [{max_num_seqs: 1}]}", "3:18: OC011 this stage entry has no `stage_id`"),
        ("{stages: [{stage_id: {}}]}", "3:29: OC008 `stage_id` is one number"),
        ("{stages: [{stage_id: 0, engine_args: 5}]}", "3:45: OC008 `engine_args` is a single value"),
        ("{stages: [{stage_id: 0, engine_args: {}, runtime: 5}]}", "3:58: OC008 `runtime` is a single value"),
        ("{stages: [{stage_id: 0, 5: 1}]}", "3:32: OC005 the stage key 5 is not a name"),
        (
            "{stages: [{stage_id: 0, engine_extras: 5, swap_space: 1}]}",
            "3:47: OC008 `engine_extras` has to be a mapping",
        ),
    ],
)
def test_a_broken_block_is_refused_on_its_platform_only(block: str, message: str) -> None:
    with pytest.raises(ResolveError, match=rf"^profile\.yaml:{message}"):
        on("npu", block)
    on("cuda", block)


def test_the_tree_of_one_platform_is_not_the_tree_of_another() -> None:
    tree = deploy(tree_of(STAGE + "platforms: {npu: {stages: [{stage_id: 0, env: {A: 9}}]}}\n"))
    before = plain(tree)
    apply_platform(tree, "npu")
    assert plain(tree) == before
