"""``diff``: what differs between two plans, and what does not count as a difference."""

from __future__ import annotations

from typing import Any

import pytest

import omnicfg
from omnicfg import Change, Plan, UsageError
from omnicfg.differences.compare import same
from tests.conftest import WriteProfile

BASE = "pipeline: qwen3_tts\nasync_chunk: false\n"


@pytest.fixture
def plan(profile_file: WriteProfile) -> Any:
    """Compiles a profile of two stages that begins with BASE."""

    def resolve(text: str, **options: Any) -> Plan:
        return omnicfg.resolve(profile_file(BASE + text), **options)

    return resolve


def changes(before: Plan, after: Plan) -> list[tuple[int | None, str, str, Any, Any]]:
    return [(each.stage_id, each.key, each.kind, each.before, each.after) for each in omnicfg.diff(before, after)]


def test_equal_plans_do_not_differ(plan: Any) -> None:
    text = "stages:\n  - stage_id: 0\n    max_num_seqs: 8\n    env: {A: x, B: y}\n"
    other = "stages:\n  - env: {B: y, A: x}\n    max_num_seqs: 8\n    stage_id: 0\n"
    assert omnicfg.diff(plan(text), plan(text)) == []
    assert omnicfg.diff(plan(text), plan(other)) == []


def test_a_value_may_be_added_removed_or_changed(plan: Any) -> None:
    before = plan("stages:\n  - {stage_id: 0, max_num_seqs: 8, dtype: half}\n")
    after = plan("stages:\n  - {stage_id: 0, max_num_seqs: 4, max_model_len: 100}\n")
    assert changes(before, after) == [
        (0, "max_num_seqs", "changed", 8, 4),
        (0, "dtype", "removed", "half", None),
        (0, "max_model_len", "added", None, 100),
    ]


def test_keys_say_where_in_the_stage_a_value_lies(plan: Any) -> None:
    before = plan("stages:\n  - {stage_id: 0, devices: '0', compilation_config: {cudagraph_mode: NONE}}\n")
    after = plan(
        "stages:\n  - stage_id: 0\n    devices: '1'\n    compilation_config: {cudagraph_mode: PIECEWISE}\n"
        "    default_sampling_params: {temperature: 0.5}\n"
    )
    assert [each.key for each in omnicfg.diff(before, after)] == [
        "compilation_config.cudagraph_mode",
        "runtime.devices",
        "extras.default_sampling_params.temperature",
    ]


def test_the_profile_itself_comes_first_and_shows_in_every_stage(plan: Any) -> None:
    found = changes(plan(""), plan("dtype: half\n"))
    assert found[0] == (None, "dtype", "changed", None, "half")
    assert found[1:] == [(0, "dtype", "added", None, "half"), (1, "dtype", "added", None, "half")]


@pytest.mark.parametrize(("before", "after"), [("1", "true"), ("1", "1.0"), ("0", "false"), ("1", "'1'")])
def test_types_count(plan: Any, before: str, after: str) -> None:
    def template(value: str) -> str:
        return f"stages:\n  - stage_id: 0\n    additional_config: {{x: {value}}}\n"

    assert [each.key for each in omnicfg.diff(plan(template(before)), plan(template(after)))] == ["additional_config.x"]


def test_lists_are_compared_as_a_whole(plan: Any) -> None:
    def template(ids: str) -> str:
        return f"stages:\n  - stage_id: 0\n    default_sampling_params: {{bad_words: {ids}}}\n"

    found = changes(plan(template("[a, b]")), plan(template("[b, a]")))
    assert found == [(0, "extras.default_sampling_params.bad_words", "changed", ["a", "b"], ["b", "a"])]


def test_a_block_against_a_scalar_is_one_change(plan: Any) -> None:
    before = plan("stages:\n  - {stage_id: 0, compilation_config: 3}\n")
    after = plan("stages:\n  - {stage_id: 0, compilation_config: {mode: 3}}\n")
    assert changes(before, after) == [(0, "compilation_config", "changed", 3, {"mode": 3})]


def test_a_stage_that_only_one_pipeline_has_is_one_change(profile_file: WriteProfile) -> None:
    text = "async_chunk: false\n"
    before = omnicfg.resolve(profile_file(text + "pipeline: qwen3_omni_moe_thinker_only\n"))
    after = omnicfg.resolve(profile_file(text + "pipeline: qwen3_omni_moe\n"))
    whole = [each for each in omnicfg.diff(before, after) if not each.key]
    assert [(each.stage_id, each.kind) for each in whole] == [(1, "added"), (2, "added")]
    assert whole[0].after["model_stage"] == "talker"
    pipeline = next(each for each in omnicfg.diff(before, after) if each.key == "pipeline")
    assert (pipeline.before, pipeline.after) == ("qwen3_omni_moe_thinker_only", "qwen3_omni_moe")


def test_the_pipeline_may_be_named_or_found(profile_file: WriteProfile) -> None:
    named = omnicfg.resolve(profile_file(BASE))
    found = omnicfg.resolve(profile_file("async_chunk: false\n"), pipeline="qwen3_tts")
    assert omnicfg.diff(named, found) == []


def test_a_change_knows_both_origins() -> None:
    change = next(
        each
        for each in omnicfg.diff(omnicfg.resolve("minicpmo_4_5"), omnicfg.resolve("minicpmo_4_5_turn"))
        if each.key == "enable_prefix_caching" and each.stage_id == 0
    )
    assert change.before_origin is not None
    assert change.after_origin is not None
    assert change.before_origin.startswith("profile, minicpmo_4_5.yaml:")
    assert change.after_origin.startswith("platform cuda, minicpmo_4_5_turn.yaml:")


def test_a_setting_of_the_command_line_is_its_own_origin(plan: Any) -> None:
    text = "stages:\n  - {stage_id: 0}\n"
    found = omnicfg.diff(plan(text), plan(text, overrides=["stages.0.max_num_seqs=8"]))
    assert [each.after_origin for each in found] == ["--set stages.0.max_num_seqs=8"]


def test_to_dict_hides_credentials(plan: Any) -> None:
    before = plan("stages:\n  - {stage_id: 0, env: {HF_TOKEN: old}}\n")
    after = plan("stages:\n  - {stage_id: 0, env: {HF_TOKEN: new}}\n")
    (change,) = omnicfg.diff(before, after)
    assert (change.before, change.after) == ("old", "new")
    assert change.to_dict()["before"] == change.to_dict()["after"] == "***"
    assert list(change.to_dict()) == list(Change.__dataclass_fields__)


def test_not_a_number_equals_itself() -> None:
    nan = float("nan")
    assert same({"a": [nan]}, {"a": [nan]})
    assert not same({"a": [nan]}, {"a": [1.0]})
    assert not same({"a": 1}, {"b": 1})


def test_what_is_no_plan_is_a_usage_error(plan: Any) -> None:
    for pair in ((plan(""), None), ("qwen3_tts", plan(""))):
        with pytest.raises(UsageError, match=r"`diff` compares two plans, not (NoneType|str)"):
            omnicfg.diff(*pair)
