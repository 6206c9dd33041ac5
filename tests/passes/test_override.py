"""Pass 6: what is set on the command line, or through the API, wins over every file."""

from __future__ import annotations

import os
from typing import Any

import pytest

import omnicfg
from omnicfg.errors import ResolveError
from omnicfg.passes.deploy import deploy
from omnicfg.passes.override import apply_overrides, document_of, parse_overrides
from omnicfg.tree import LayerKind, Mapping, Mark, Scalar, plain
from tests.passes.trees import tree_of

PROFILE = """\
async_chunk: true
enable_prefix_caching: true
connectors: {shm: {name: A, extra: {x: 1}}}
stages:
  - {stage_id: 0, max_num_seqs: 4, env: {A: 1}, engine_extras: {max_num_seqs: 8, swap_space: 1}}
  - {stage_id: 1, engine_extras: {enable_prefix_caching: true}}
"""


def with_settings(*settings: str) -> Mapping:
    return apply_overrides(deploy(tree_of(PROFILE)), parse_overrides(settings))


def stage(tree: Mapping, stage_id: int = 0) -> dict[str, Any]:
    found = next(entry for entry in tree.sequence("stages").mappings() if entry.value("stage_id") == stage_id)
    values: dict[str, Any] = plain(found)
    return values


# ------------------------------------------------------------------------------------------------------ reading
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a=8", 8),
        ("a=true", True),
        ("a=off", False),
        ("a=", None),
        ("a=null", None),
        ("a=0.5", 0.5),
        ("a=text", "text"),
        ("a='8'", "8"),
        ('a="0,1"', "0,1"),
        ("a=[0, 1]", [0, 1]),
        ("a={b: {c: 1}}", {"b": {"c": 1}}),
        ("a=x=y", "x=y"),
        ("a=x: y", "x: y"),
        ("a=${oc.env:HOME}", "${oc.env:HOME}"),
        (" a = 8 ", 8),
        ("a = ", None),
        ("a = two words", "two words"),
        ("a = ' 8'", " 8"),
    ],
)
def test_a_value_is_read_as_in_a_file(text: str, value: object) -> None:
    (override,) = parse_overrides([text])
    assert (override.key, plain(override.node)) == ("a", value)


def test_a_value_has_its_place_in_the_text() -> None:
    (override,) = parse_overrides(["stages.0.env={A: 1}"])
    node = override.node
    assert isinstance(node, Mapping)
    assert node.mark == Mark("--set stages.0.env={A: 1}", 1, 14, 1, 20)
    assert node.items["A"].mark == Mark("--set stages.0.env={A: 1}", 1, 18, 1, 19)
    assert {node.layer.kind, node.items["A"].layer.kind} == {LayerKind.OVERRIDE}


def test_spaces_around_a_value_are_no_part_of_it() -> None:
    (override,) = parse_overrides(["a = 8 "])
    assert override.node.mark == Mark("--set a = 8 ", 1, 5, 1, 6)


@pytest.mark.parametrize("setting", ["a=\udcff", "\udcff=8", "a={b: \udcff}"])
def test_what_is_not_utf_8_is_refused(setting: str) -> None:
    with pytest.raises(ResolveError, match=r"OC020 .* not UTF-8 text"):
        parse_overrides([setting])


def test_quotes_are_remembered() -> None:
    quoted, bare = parse_overrides(["a='8'", "a=8"])
    assert isinstance(quoted.node, Scalar)
    assert isinstance(bare.node, Scalar)
    assert (quoted.node.quoted, bare.node.quoted) == (True, False)


def test_the_api_takes_plain_values() -> None:
    (override,) = parse_overrides({"stages.0.env": {"A": 1, "B": (1, 2)}})
    assert plain(override.node) == {"A": 1, "B": [1, 2]}
    assert str(override.node.mark) == "--set stages.0.env"


def test_nothing_is_nothing() -> None:
    assert parse_overrides(None) == parse_overrides([]) == parse_overrides({}) == []


def test_a_credential_is_not_shown() -> None:
    (override,) = parse_overrides(["stages.0.hf_token=abc123"])
    assert override.node.mark.file == "--set stages.0.hf_token=***"
    assert plain(override.node) == "abc123"


def test_a_long_text_is_shown_shortened() -> None:
    (override,) = parse_overrides([f"stages.0.env={'x' * 500}"])
    assert len(override.node.mark.file) <= 126


# --------------------------------------------------------------------------------------------- whole profile
def test_a_top_level_value() -> None:
    tree = with_settings("async_chunk=false")
    node = tree.items["async_chunk"]
    assert (plain(node), node.layer.kind) == (False, LayerKind.OVERRIDE)
    assert [(plain(lost.node), lost.reason) for lost in node.beaten] == [(True, "set on the command line")]


def test_a_value_deep_in_a_block_merges() -> None:
    assert with_settings("connectors.shm.extra.y=2").value("connectors") == {
        "shm": {"name": "A", "extra": {"x": 1, "y": 2}}
    }


def test_a_mapping_merges_into_a_mapping_and_replaces_anything_else() -> None:
    assert with_settings("connectors={rdma: {}}").value("connectors") == {
        "shm": {"name": "A", "extra": {"x": 1}},
        "rdma": {},
    }
    assert with_settings("connectors.shm.name={a: 1}").value("connectors")["shm"]["name"] == {"a": 1}


def test_the_last_of_several_wins() -> None:
    tree = with_settings("async_chunk=false", "async_chunk=true")
    assert [plain(lost.node) for lost in tree.items["async_chunk"].beaten] == [False, True]


def test_a_pipeline_wide_value_goes_over_the_extras_of_every_stage() -> None:
    tree = with_settings("enable_prefix_caching=false")
    assert tree.value("enable_prefix_caching") is False
    assert stage(tree, 1)["engine_extras"] == {"enable_prefix_caching": False}
    assert "enable_prefix_caching" not in stage(tree, 0)["engine_extras"]


def test_limits_and_conversions_of_a_file_hold_for_a_setting() -> None:
    assert with_settings("active_stream_window='7'").value("active_stream_window") == 7
    assert stage(with_settings("stages.0.num_replicas='2'"))["num_replicas"] == 2
    assert with_settings("duplex_session.max_sessions=3").value("duplex_session")["max_sessions"] == 3
    with pytest.raises(ResolveError, match=r"OC019 `duplex_session\.max_sessions` is 0; it has to be positive"):
        with_settings("duplex_session.max_sessions=0")


# ----------------------------------------------------------------------------------------------------- one stage
def test_a_stages_value_goes_over_its_extras_too() -> None:
    found = stage(with_settings("stages.0.max_num_seqs=2"))
    assert (found["max_num_seqs"], found["engine_extras"]) == (2, {"swap_space": 1})


def test_a_stages_value_keeps_all_that_it_beat() -> None:
    tree = with_settings("stages.0.max_num_seqs=2")
    node = tree.sequence("stages").mappings()[0].items["max_num_seqs"]
    assert [plain(lost.node) for lost in node.beaten] == [8, 4]


def test_a_key_outside_the_schema_goes_to_the_extras() -> None:
    assert stage(with_settings("stages.0.kv_cache_dtype=fp8"))["engine_extras"] == {
        "max_num_seqs": 8,
        "swap_space": 1,
        "kv_cache_dtype": "fp8",
    }


@pytest.mark.parametrize("spelling", ["stages.0.devices", "stages.0.runtime.devices", "stages.0.engine_extras.devices"])
def test_all_spellings_of_a_stages_setting_are_one(spelling: str) -> None:
    assert stage(with_settings(f"{spelling}='3'"))["devices"] == "3"


def test_a_block_of_a_stage_merges() -> None:
    assert stage(with_settings("stages.0.env.B=2"))["env"] == {"A": 1, "B": 2}
    assert stage(with_settings("stages.0.env={B: 2}"))["env"] == {"A": 1, "B": 2}


def test_a_stage_that_the_profile_does_not_list_gets_the_schemas_defaults() -> None:
    found = stage(with_settings("stages.7.max_num_seqs=2"), 7)
    assert (found["max_num_seqs"], found["num_replicas"], found["engine_extras"]) == (2, 1, {})


def test_stages_are_named_by_id_not_by_position() -> None:
    text = "stages: [{stage_id: 1, max_num_seqs: 1}, {stage_id: 0, max_num_seqs: 0}]\n"
    tree = apply_overrides(deploy(tree_of(text)), parse_overrides(["stages.0.max_num_seqs=5"]))
    assert [entry.value("max_num_seqs") for entry in tree.sequence("stages").mappings()] == [1, 5]


def test_a_misspelt_key_has_a_near_name() -> None:
    for setting, near in (("async_chunks=1", "async_chunk"), ("stages.0.max_num_seq=1", "max_num_seqs")):
        with pytest.raises(ResolveError) as refused:
            with_settings(setting)
        assert refused.value.diagnostics[0].help == f"Did you mean `{near}`?"


@pytest.mark.parametrize(
    ("key", "what", "path"),
    [
        ("kv_cache_dtype", "a stage", "stages.0.kv_cache_dtype"),
        ("tensor_parallel_size", "a stage", "stages.0.tensor_parallel_size"),
        ("devices", "a stage", "stages.0.devices"),
        ("env.A", "a stage", "stages.0.env.A"),
        ("temperature", "a stage's sampling parameters", "stages.0.default_sampling_params.temperature"),
        ("stages.1.top_k", "a stage's sampling parameters", "stages.1.default_sampling_params.top_k"),
        ("stages.1.model_runner", "the whole profile", "model_runner"),
        ("stages.1.connectors.shm.name", "the whole profile", "connectors.shm.name"),
    ],
)
def test_a_key_that_exists_elsewhere_is_told_where(key: str, what: str, path: str) -> None:
    with pytest.raises(ResolveError) as refused:
        with_settings(f"{key}=1")
    assert refused.value.diagnostics[0].help == f"It is a setting of {what}: `--set {path}=...`."


@pytest.mark.parametrize(
    ("key", "block", "name", "help"),
    [
        (
            "runtime.max_num_seqs",
            "runtime",
            "max_num_seqs",
            "It stands in the stage itself: `--set {}max_num_seqs=...`.",
        ),
        ("runtime.dtype", "runtime", "dtype", "It stands in the stage itself: `--set {}dtype=...`."),
        ("runtime.runtime.env", "runtime", "runtime", "It stands in the stage itself: `--set {}runtime.env=...`."),
        ("runtime.device", "runtime", "device", "Did you mean `devices`?"),
        ("runtime.zzz", "runtime", "zzz", "It has: devices, num_replicas, env."),
        (
            "runtime.connectors.a",
            "runtime",
            "connectors",
            "It is a setting of the whole profile: `--set connectors.a=...`.",
        ),
        (
            "runtime.top_k",
            "runtime",
            "top_k",
            "It is a setting of a stage's sampling parameters: `--set {}default_sampling_params.top_k=...`.",
        ),
        (
            "engine_args.default_sampling_params.top_k",
            "engine_args",
            "default_sampling_params",
            "It stands in the stage itself: `--set {}default_sampling_params.top_k=...`.",
        ),
        (
            "engine_extras.runtime.devices",
            "engine_extras",
            "runtime",
            "It stands in the stage itself: `--set {}runtime.devices=...`.",
        ),
    ],
)
def test_a_block_takes_the_keys_that_it_has_in_a_profile(key: str, block: str, name: str, help: str) -> None:
    with pytest.raises(ResolveError) as refused:
        with_settings(f"stages.1.{key}=1")
    (found,) = refused.value.diagnostics
    assert (found.message, found.help) == (f"`{block}` has no setting `{name}`", help.format("stages.1."))


@pytest.mark.parametrize("block", ["engine_args", "engine_extras", "runtime"])
def test_a_block_is_set_by_what_is_in_it(block: str) -> None:
    with pytest.raises(ResolveError) as refused:
        with_settings(f"stages.0.{block}={{dtype: half}}")
    (found,) = refused.value.diagnostics
    assert found.message == f"`{block}` cannot be set as a whole"
    assert found.help == f"Set what is in it, one by one: `--set stages.0.{block}.KEY=...`."


@pytest.mark.parametrize(
    ("setting", "message", "help"),
    [
        (
            "platforms.npu.dtype=half",
            "`platforms` cannot be overridden",
            "Override the setting itself, and say with `--platform` on which platform.",
        ),
        ("base_config=a.yaml", "`base_config` cannot be overridden", "Put a file on top with `--overlay FILE`."),
        ("stage.0.devices=0", "a profile has no setting `stage`", "Write it like `stages.0.max_num_seqs`."),
        ("stages[0].devices=0", "a profile has no setting `stages[0]`", "Write it like `stages.0.max_num_seqs`."),
        (
            "stages/0/devices=0",
            "a profile has no setting `stages/0/devices`",
            "Write it like `stages.0.max_num_seqs`.",
        ),
    ],
)
def test_what_cannot_be_overridden_is_told_what_to_do_instead(setting: str, message: str, help: str) -> None:
    with pytest.raises(ResolveError) as refused:
        with_settings(setting)
    (found,) = refused.value.diagnostics
    assert (found.message, found.help) == (message, help)


@pytest.mark.parametrize("value", ["'half'x", "{a: 1} b", '"half" "way"', "'a\n\nb'x"])
def test_what_follows_a_value_is_told_of_the_value_and_no_file(value: str) -> None:
    with pytest.raises(ResolveError) as refused:
        with_settings(f"dtype={value}")
    (found,) = refused.value.diagnostics
    assert (found.message, found.help) == (
        "what begins here belongs to nothing",
        "Quote it with what is before it, or remove it.",
    )


@pytest.mark.parametrize("value", [b"caf\xe9", b"'caf\xe9'"])
def test_bytes_that_no_file_could_hold_are_refused(value: bytes) -> None:
    with pytest.raises(ResolveError, match="not UTF-8 text"):
        with_settings(os.fsdecode(b"stages.0.env.A=" + value))


def test_one_text_is_a_list_of_one() -> None:
    (override,) = parse_overrides("stages.0.devices='0'")
    assert (override.key, plain(override.node)) == ("stages.0.devices", "0")


def test_a_runner_of_null_is_told_as_such() -> None:
    with pytest.raises(ResolveError, match="`model_runner` is null; it has to be v1 or v2"):
        omnicfg.resolve("qwen3_tts", overrides=["model_runner="])


@pytest.mark.parametrize("number", ["٣", "²", "+0", "-0", "0000000"])
def test_a_stage_has_a_number_in_plain_digits(number: str) -> None:
    with pytest.raises(ResolveError, match="names no setting of a stage"):
        with_settings(f"stages.{number}.dtype=half")


def test_the_tree_that_came_in_is_left_alone() -> None:
    tree = deploy(tree_of(PROFILE))
    before = plain(tree)
    apply_overrides(
        tree, parse_overrides(["stages.0.env.B=2", "connectors.shm.extra.y=2", "enable_prefix_caching=false"])
    )
    assert plain(tree) == before


# -------------------------------------------------------------------------------------------------- as documents
@pytest.mark.parametrize(
    ("setting", "document"),
    [
        ("async_chunk=false", {"async_chunk": False}),
        ("connectors.shm.extra.y=2", {"connectors": {"shm": {"extra": {"y": 2}}}}),
        ("stages.1.devices='0'", {"stages": [{"stage_id": 1, "devices": "0"}]}),
        ("stages.1.runtime.devices='0'", {"stages": [{"stage_id": 1, "devices": "0"}]}),
        ("stages.1.env.A=1", {"stages": [{"stage_id": 1, "env": {"A": 1}}]}),
    ],
)
def test_a_setting_is_a_file_that_says_nothing_else(setting: str, document: dict[str, object]) -> None:
    (override,) = parse_overrides([setting])
    assert plain(document_of(override)) == document
