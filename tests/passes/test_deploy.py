"""Pass 4: the spellings of a profile become the fields of the deploy schema."""

from __future__ import annotations

from typing import Any

import pytest

from omnicfg.errors import ResolveError
from omnicfg.passes.deploy import deploy
from omnicfg.tree import LayerKind, Mapping, plain
from tests.passes.trees import tree_of


def deployed(text: str) -> dict[str, Any]:
    result: dict[str, Any] = plain(deploy(tree_of(text)))
    return result


def stage(text: str) -> dict[str, Any]:
    """The one stage of a profile, without its id and the fields that are left at their defaults or at null."""
    (tree,) = deploy(tree_of(f"stages: [{{stage_id: 0, {text}}}]\n")).sequence("stages").mappings()
    written = {key: node for key, node in tree.items.items() if node.layer.kind is not LayerKind.DEFAULT}
    return {str(key): plain(node) for key, node in written.items() if key != "stage_id" and plain(node) is not None}


def test_an_empty_profile_is_all_defaults() -> None:
    tree = deploy(tree_of(""))
    values = plain(tree)
    assert values["async_chunk"] is True
    assert values["model_runner"] == "v1"
    assert values["session_mode"] == "turn"
    assert values["duplex_session"]["max_sessions"] == 1
    assert values["stages"] == []
    assert {tree.items[key].layer.kind for key in ("async_chunk", "model_runner", "session_mode")} == {
        LayerKind.DEFAULT
    }
    assert tree.items["async_chunk"].mark.file.startswith("vllm_omni/")
    assert tree.items["async_chunk"].mark.line > 0


def test_unknown_top_level_keys_fall_away() -> None:
    assert "asynch_chunk" not in deployed("asynch_chunk: 1\n")


def test_a_stage_that_sets_nothing() -> None:
    assert stage("devices: null") == {"engine_extras": {}}
    (found,) = deployed("stages: [{stage_id: 0}]\n")["stages"]
    assert (found["num_replicas"], found["devices"], found["max_num_seqs"]) == (1, None, None)


def test_own_keys_and_engine_args_are_one() -> None:
    assert stage("max_num_seqs: 4, engine_args: {max_num_seqs: 8, enforce_eager: true}") == {
        "max_num_seqs": 8,
        "enforce_eager": True,
        "engine_extras": {},
    }


def test_nested_blocks_of_own_keys_and_engine_args_merge() -> None:
    assert stage("parallel_config: {a: 1, b: 1}, engine_args: {parallel_config: {b: 2}}") == {
        "engine_extras": {"parallel_config": {"a": 1, "b": 2}},
    }


def test_the_runtime_block_goes_over_the_stages_own_keys() -> None:
    found = stage("devices: '0', num_replicas: 1, env: {A: 1}, runtime: {devices: '1', num_replicas: 2, x: 9}")
    assert (found["devices"], found["num_replicas"], found["env"]) == ("1", 2, {"A": 1})
    assert found["engine_extras"] == {}


def test_unknown_keys_join_the_extras_and_win_there() -> None:
    found = stage("swap_space: 4, kv_cache_memory_bytes: 1, engine_extras: {swap_space: 8, max_model_len: 9}")
    assert found["engine_extras"] == {"swap_space": 4, "kv_cache_memory_bytes": 1, "max_model_len": 9}


def test_known_fields_in_the_extras_stay_there() -> None:
    found = stage("max_num_seqs: 4, engine_extras: {max_num_seqs: 8}")
    assert (found["max_num_seqs"], found["engine_extras"]) == (4, {"max_num_seqs": 8})


@pytest.mark.parametrize("block", ["null", "{}", "[]", "''", "0"])
def test_extras_that_hold_nothing(block: str) -> None:
    assert stage(f"engine_extras: {block}, swap_space: 4")["engine_extras"] == {"swap_space": 4}


@pytest.mark.parametrize(("written", "read"), [("2", 2), ("'2'", 2), ("2.9", 2), ("true", 1), ("' 3 '", 3)])
def test_replicas_are_read_as_a_whole_number(written: str, read: int) -> None:
    tree = deploy(tree_of(f"stages: [{{stage_id: 0, num_replicas: {written}}}]\n"))
    node = tree.sequence("stages").mappings()[0].items["num_replicas"]
    assert plain(node) == read
    assert type(plain(node)) is int
    assert (node.mark.line, node.mark.column) == (1, 38)


@pytest.mark.parametrize(("written", "read"), [("5", 5), ("null", 0), ("'7'", 7), ("false", 0), ("2.5", 2)])
def test_the_stream_window_is_read_as_a_whole_number(written: str, read: int) -> None:
    assert deployed(f"active_stream_window: {written}\n")["active_stream_window"] == read


def test_duplex_session_keeps_the_defaults_of_what_it_leaves_out() -> None:
    found = deployed("duplex_session: {max_sessions: 4, idle_ttl_s: null}\n")["duplex_session"]
    assert (found["max_sessions"], found["idle_ttl_s"]) == (4, None)
    assert found["warmup_frames"] == deployed("")["duplex_session"]["warmup_frames"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("stage_args: []\n", "1:1: OC010 `stage_args` is the schema of vLLM-Omni before 0.30"),
        ("model_runner: v3\n", "1:15: OC014 `model_runner` is 'v3'; it has to be one of v1, v2"),
        ("model_runner: [v1]\n", "1:15: OC014 "),
        ("active_stream_window: many\n", "1:23: OC021 `active_stream_window` is 'many'; it has to be a whole number"),
        ("active_stream_window: .inf\n", "1:23: OC021 "),
        ("stages: [{stage_id: 0, num_replicas: many}]\n", "1:38: OC021 `num_replicas` is 'many'"),
        ("stages: [{stage_id: 0, num_replicas: null}]\n", "1:38: OC021 `num_replicas` is null"),
        ("stages: [{stage_id: 0, num_replicas: [2]}]\n", "1:38: OC021 "),
        ("stages: [{stage_id: 0, runtime: 5}]\n", "1:33: OC008 `runtime` is a single value"),
        ("stages: [{stage_id: 0, engine_args: null}]\n", "1:37: OC008 `engine_args` is null"),
        ("stages: [{stage_id: 0, engine_args: [a]}]\n", "1:37: OC008 `engine_args` is a list"),
        ("stages: [{stage_id: 0, engine_extras: text}]\n", "1:39: OC008 `engine_extras` is a single value"),
        ("stages: 5\n", "1:9: OC008 `stages` is no list"),
        ("stages: null\n", "1:9: OC008 `stages` is null"),
        ("stages: [{}]\n", "1:10: OC011 this stage entry has no `stage_id`"),
        ("stages: [{stage_id: {a: 1}}]\n", "1:21: OC008 `stage_id` is one number"),
        ("duplex_session: 5\n", "1:17: OC008 `duplex_session` is a single value"),
        ("duplex_session: {max_session: 1}\n", "1:18: OC019 `duplex_session` has no setting `max_session`"),
        (
            "duplex_session: {max_sessions: 0}\n",
            r"1:32: OC019 `duplex_session\.max_sessions` is 0; it has to be positive",
        ),
        ("duplex_session: {max_sessions: many}\n", r"1:32: OC019 `duplex_session\.max_sessions` is 'many'"),
        (
            "duplex_session: {server_vad_model_path: ' '}\n",
            "1:41: OC019 `server_vad_model_path` has to be a path or null",
        ),
    ],
)
def test_what_upstream_refuses_or_crashes_on_is_refused_at_its_place(text: str, message: str) -> None:
    with pytest.raises(ResolveError, match=rf"^profile\.yaml:{message}"):
        deploy(tree_of(text))


def test_a_misspelt_duplex_setting_has_a_near_name() -> None:
    with pytest.raises(ResolveError) as refused:
        deploy(tree_of("duplex_session: {max_session: 1}\n"))
    assert refused.value.diagnostics[0].help == "Did you mean `max_sessions`?"


def test_the_tree_that_came_in_is_left_alone() -> None:
    tree = tree_of("stages: [{stage_id: 0, engine_args: {a: 1}, b: 2}]\n")
    before = plain(tree)
    deploy(tree)
    assert plain(tree) == before
    assert isinstance(tree, Mapping)
