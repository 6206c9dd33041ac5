"""`validate`: every finding once, in the order of files and places."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

import omnicfg
from omnicfg.buffers import Buffers
from omnicfg.check import Looked, check
from omnicfg.diagnostics import Severity
from omnicfg.errors import ResolveError, UsageError
from tests.conftest import WriteProfile

TTS = "pipeline: qwen3_tts\nasync_chunk: false\n"


def summary(*profiles: Path, **options: Any) -> list[tuple[str, int, str, str | None]]:
    found = omnicfg.validate(profiles, **options)
    return [(Path(one.path).name, one.line, one.code, one.platform) for one in found]


def test_a_clean_profile_has_no_findings(profile_file: WriteProfile) -> None:
    assert omnicfg.validate(profile_file(TTS)) == []


def test_who_looks_on_sees_each_profile_with_its_plans(profile_file: WriteProfile) -> None:
    good, refused = profile_file(TTS, "good.yaml"), profile_file(f"{TTS}model_runner: v2\n", "refused.yaml")
    broken = profile_file("a: [\n", "broken.yaml")
    seen: list[Looked] = []
    check([good, refused, broken], ("cuda", "npu"), look=seen.append)
    plans = [None if each.subject is None else list(each.subject.plans) for each in seen]
    assert plans == [["cuda", "npu"], ["cuda"], None]
    assert [next(iter(each.files)) for each in seen] == [str(good), str(refused), str(broken)]


def test_a_model_s_directory_is_a_path_or_a_text(tmp_path: Path, profile_file: WriteProfile) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "qwen3_tts"}')
    profile = profile_file("async_chunk: false\nstages: [{stage_id: 0, max_num_seq: 8}]\n")
    found = [omnicfg.validate(profile, model=model) for model in (tmp_path, str(tmp_path))]
    assert [[each.code for each in findings] for findings in found] == [["OC101"], ["OC101"]]


def test_one_profile_or_several(profile_file: WriteProfile) -> None:
    one, two = profile_file(TTS + "a: 1\n", "one.yaml"), profile_file(TTS + "b: 1\n", "two.yaml")
    assert summary(one) == [("one.yaml", 3, "OC101", None)]
    assert omnicfg.validate(str(one)) == omnicfg.validate([one])
    assert summary(two, one) == [("one.yaml", 3, "OC101", None), ("two.yaml", 3, "OC101", None)]


def test_findings_are_in_the_order_of_their_places(profile_file: WriteProfile) -> None:
    text = TTS + "stages:\n  - {stage_id: 0, num_replicas: 0, devices: 0}\nz: 1\ntrust_remote_code: 'yes'\n"
    assert [one[1:3] for one in summary(profile_file(text))] == [(4, "OC105"), (4, "OC102"), (5, "OC101"), (6, "OC103")]


# --------------------------------------------------------------------------------------------------- platforms
def test_a_finding_of_the_file_names_no_platform(profile_file: WriteProfile) -> None:
    profile = profile_file(TTS + "a: 1\n")
    assert summary(profile, platform="npu") == [("profile.yaml", 3, "OC101", None)]


def test_a_finding_of_all_platforms_names_none_and_one_of_some_names_them(profile_file: WriteProfile) -> None:
    text = TTS + (
        "stages: [{stage_id: 0, max_num_batched_tokens: 1, max_num_seqs: 2}]\n"
        "platforms: {npu: {stages: [{stage_id: 0, max_num_seqs: 1}]}}\n"
    )
    assert summary(profile_file(text)) == [("profile.yaml", 3, "OC603", "cuda,rocm,xpu,musa")]
    assert summary(profile_file(text.split("platforms:", maxsplit=1)[0])) == [("profile.yaml", 3, "OC603", None)]


def test_a_finding_on_the_one_platform_that_was_asked_for_names_it(profile_file: WriteProfile) -> None:
    profile = profile_file(TTS + "stages: [{stage_id: 0, max_num_batched_tokens: 1, max_num_seqs: 2}]\n")
    assert summary(profile, platform="xpu") == [("profile.yaml", 3, "OC603", "xpu")]


def test_a_finding_in_the_block_of_another_platform_is_not_of_this_one(profile_file: WriteProfile) -> None:
    profile = profile_file(TTS + "platforms: {npu: {a: 1}}\n")
    assert summary(profile) == summary(profile, platform="npu") == [("profile.yaml", 3, "OC101", "npu")]
    assert summary(profile, platform="cuda") == []


def test_what_cannot_be_compiled_on_a_platform_is_a_finding_there(profile_file: WriteProfile) -> None:
    found = omnicfg.validate(profile_file("pipeline: qwen3_tts\nmodel_runner: v2\n"))
    assert [(one.line, one.platform, one.severity) for one in found if one.code == "OC015"] == [
        (2, "npu,xpu", Severity.ERROR),
    ]


def test_what_cannot_be_compiled_at_all_is_a_finding(profile_file: WriteProfile) -> None:
    assert summary(profile_file("a: [\n")) == [("profile.yaml", 1, "OC002", None)]


def test_rules_look_at_a_file_that_cannot_be_compiled(profile_file: WriteProfile) -> None:
    text = "pipeline: glm_image\nasync_chunk: true\nmax_num_sqs: 1\n"
    assert summary(profile_file(text)) == [("profile.yaml", 2, "OC016", None), ("profile.yaml", 3, "OC101", None)]


# ---------------------------------------------------------------------------------------------------- pipelines
def test_a_profile_that_no_platform_can_have_hides_no_other_mistake(profile_file: WriteProfile) -> None:
    text = TTS + "model_runner: V2\nstages:\n  - {stage_id: 0, max_num_seq: 4}\n  - stage_id: 9\n"
    base = profile_file(text, "base.yaml")
    expected = [("base.yaml", 3, "OC014", None), ("base.yaml", 5, "OC101", None), ("base.yaml", 6, "OC201", None)]
    assert summary(base) == expected
    derived = profile_file(
        "base_config: base.yaml\nplatforms: {npu: {stages: [{stage_id: 0, x: 1}]}}\n", "derived.yaml"
    )
    assert summary(derived) == [*expected, ("derived.yaml", 2, "OC101", "npu")]


def test_a_file_without_a_pipeline_is_checked_as_its_name_suggests(profile_file: WriteProfile) -> None:
    text = "async_chunk: false\nstages: [{stage_id: 9}]\n"
    note, error = omnicfg.validate(profile_file(text, "qwen3_tts_fast.yaml"))
    assert (note.code, note.severity, note.line) == ("OC013", Severity.NOTE, 1)
    assert note.message.endswith("; checked as qwen3_tts, which the file's name suggests")
    assert (error.code, error.line) == ("OC201", 2)


def test_a_file_that_nothing_assigns_is_checked_by_itself(profile_file: WriteProfile) -> None:
    note, error = omnicfg.validate(profile_file("stages: [{stage_id: 9, max_num_seqs: many}]\n", "own.yaml"))
    assert note.message.endswith("; only the file itself was checked")
    assert (error.code, error.line) == ("OC102", 1)


def test_a_pipeline_that_is_asked_for(profile_file: WriteProfile) -> None:
    profile = profile_file("async_chunk: false\n", "own.yaml")
    assert summary(profile, pipeline="qwen3_tts") == []
    assert summary(profile, pipeline="qwen3_ts") == [("--pipeline", 0, "OC012", None)]


# --------------------------------------------------------------------------------------------------------- bases
def test_a_finding_in_a_shared_base_is_told_once_with_its_profiles(profile_file: WriteProfile) -> None:
    profile_file(TTS + "a: 1\n", "base.yaml")
    tops = [profile_file("base_config: base.yaml\n", f"{name}.yaml") for name in ("c", "a", "b")]
    (found,) = omnicfg.validate(tops)
    assert found.message == "unknown key `a` in the profile (in profile a.yaml and 2 more)"


def test_what_a_default_does_is_told_at_the_start_of_the_profile(profile_file: WriteProfile) -> None:
    assert summary(profile_file("pipeline: glm_image\n")) == [("profile.yaml", 1, "OC016", None)]


# -------------------------------------------------------------------------------------------------------- order
def test_the_order_of_profiles_does_not_matter(profile_file: WriteProfile) -> None:
    profile_file(TTS + "a: 1\nplatforms: {npu: {b: 1}}\n", "base.yaml")
    files = [
        profile_file("base_config: base.yaml\nmodel_runner: v2\n", "one.yaml"),
        profile_file("base_config: base.yaml\nstages: [{stage_id: 5}]\n", "two.yaml"),
        profile_file("x: [\n", "three.yaml"),
    ]
    first, *others = [omnicfg.validate(order) for order in itertools.permutations(files)]
    assert len(first) == 5
    assert all(other == first for other in others)


# ------------------------------------------------------------------------------------------------------ requests
def test_requests_that_make_no_sense(profile_file: WriteProfile) -> None:
    profile = profile_file(TTS)
    with pytest.raises(UsageError, match="unknown platform `tpu`"):
        omnicfg.validate(profile, platform="tpu")
    with pytest.raises(UsageError, match="unknown engine `bundle`"):
        omnicfg.validate(profile, engine="bundle")
    with pytest.raises(UsageError, match="no profile `missing`"):
        omnicfg.validate("missing")
    with pytest.raises(ResolveError, match="`x` has no value"):
        omnicfg.validate(profile, overrides=["x"])


def test_a_setting_that_nothing_takes_is_a_finding(profile_file: WriteProfile) -> None:
    (found,) = omnicfg.validate(profile_file(TTS), overrides=["asynch_chunk=1"])
    assert (found.code, found.path, found.platform) == ("OC020", "--set asynch_chunk=1", None)


def test_shipped_profiles_have_no_errors() -> None:
    from omnicfg.catalog.library import library

    found = omnicfg.validate(list(library()))
    assert [one for one in found if one.severity is Severity.ERROR] == []


# ----------------------------------------------------------------------------------- what cannot be read, and the rest
def test_every_refusal_of_a_file_is_told_and_what_else_is_wrong_with_it(
    profile_file: WriteProfile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NOT_SET", raising=False)
    profile = profile_file(
        TTS
        + """\
trust_remote_code: ${nowhere}
dtype: ${oc.coerce:float16}
session_mode: ${oc.env:NOT_SET}
quantization: ${dtype}
stages:
  - stage_id: 0
    max_num_seqs: 8
    max_num_seqs: 9
    max_model_len: !size 4096
    max_num_seq: 8
    seed: 0b_
"""
    )
    assert [one[1:3] for one in summary(profile)] == [
        (3, "OC009"),
        (4, "OC009"),
        (5, "OC009"),
        (10, "OC003"),
        (11, "OC005"),
        (12, "OC101"),
        (13, "OC021"),
    ]
    with pytest.raises(ResolveError) as refused:
        omnicfg.resolve(profile)
    assert len(refused.value.diagnostics) == 1, "who compiles wants no more than the reason"


def test_a_base_that_cannot_be_read_hides_nothing_of_the_file_above(profile_file: WriteProfile) -> None:
    profile_file("a: [\n", "base.yaml")
    profile = profile_file("base_config: base.yaml\n" + TTS + "asynch_chunk: true\n", "top.yaml")
    assert [one[:3] for one in summary(profile)] == [("base.yaml", 1, "OC002"), ("top.yaml", 4, "OC101")]


def test_an_overlay_that_cannot_be_read_hides_nothing_of_the_file_below(profile_file: WriteProfile) -> None:
    profile, overlay = profile_file(TTS + "asynch_chunk: true\n", "p.yaml"), profile_file("\ta: 1\n", "over.yaml")
    assert [one[:3] for one in summary(profile, overlays=overlay)] == [
        ("over.yaml", 1, "OC002"),
        ("p.yaml", 3, "OC101"),
    ]


def test_files_that_do_not_go_together_are_each_looked_at(profile_file: WriteProfile) -> None:
    profile_file("stages: {0: {}}\n", "base.yaml")
    profile = profile_file("base_config: base.yaml\n" + TTS + "asynch_chunk: true\nstages: []\n", "top.yaml")
    assert {one[:3] for one in summary(profile)} >= {("base.yaml", 1, "OC008"), ("top.yaml", 4, "OC101")}


def test_a_flawed_base_is_flawed_however_often_it_is_read(profile_file: WriteProfile) -> None:
    profile_file("a: 1\na: 2\n", "base.yaml")
    one, other = (profile_file(f"base_config: base.yaml\n{TTS}", name) for name in ("one.yaml", "two.yaml"))
    with Buffers():
        assert [each[:3] for each in summary(one)] == [each[:3] for each in summary(one)]
        assert ("base.yaml", 2, "OC003", None) in summary(one, other)
