"""`resolve`: the passes, wired."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import omnicfg
from omnicfg.compiler import compile_profile, load, pipeline_of
from omnicfg.errors import ResolveError, UsageError
from omnicfg.passes.override import parse_overrides
from omnicfg.tree import plain
from tests.conftest import WriteProfile

TTS = "pipeline: qwen3_tts\nasync_chunk: false\n"


@pytest.mark.parametrize("name", ["qwen3_omni_moe", "qwen3-omni-moe", "qwen3_omni_moe.yaml", "QWEN3_Omni_MoE"])
def test_a_shipped_profile_by_name(name: str) -> None:
    plan = omnicfg.resolve(name)
    assert (plan.profile, plan.pipeline, plan.platform) == ("qwen3_omni_moe.yaml", "qwen3_omni_moe", "cuda")


def test_a_file_wins_over_a_shipped_name(profile_file: WriteProfile, monkeypatch: pytest.MonkeyPatch) -> None:
    path = profile_file("pipeline: qwen3_tts\nasync_chunk: false\n", "glm_image.yaml")
    monkeypatch.chdir(path.parent)
    assert omnicfg.resolve("glm_image.yaml").pipeline == "qwen3_tts"
    assert omnicfg.resolve(Path("glm_image.yaml")).pipeline == "qwen3_tts"


@pytest.mark.parametrize(
    ("platform", "help_text"),
    [
        ("CUDA", "Did you mean `cuda`?"),
        ("tpu", "Platforms: cuda, npu, rocm, xpu, musa."),
        ("", "Platforms: cuda, npu, rocm, xpu, musa."),
    ],
)
def test_an_unknown_platform_is_a_usage_error(platform: str, help_text: str) -> None:
    with pytest.raises(UsageError) as refused:
        omnicfg.resolve("qwen3_tts", platform=platform)
    assert refused.value.diagnostics[0].message == f"unknown platform `{platform}`"
    assert refused.value.diagnostics[0].help == help_text


def test_no_platform_at_all_is_a_usage_error() -> None:
    for ask in (omnicfg.resolve, omnicfg.validate):
        with pytest.raises(UsageError, match="unknown platform `None`"):
            ask("qwen3_tts", platform=None)  # type: ignore[arg-type]


def test_a_profile_that_does_not_exist_has_near_names(profile_file: WriteProfile) -> None:
    existing = profile_file(TTS, "turn.yaml")
    for asked, near in (("qwen3_omni_mo", "qwen3_omni_moe"), (str(existing.with_name("turns.yaml")), str(existing))):
        with pytest.raises(UsageError) as refused:
            omnicfg.resolve(asked)
        assert refused.value.diagnostics[0].help == f"Did you mean `{near}`?"


def test_overlays_and_settings_go_on_top_in_their_order(profile_file: WriteProfile) -> None:
    profile = profile_file(TTS + "stages: [{stage_id: 0, max_num_seqs: 1}]\n")
    one = profile_file("stages: [{stage_id: 0, max_num_seqs: 2}]\n", "one.yaml")
    two = profile_file("stages: [{stage_id: 0, max_num_seqs: 3}]\n", "two.yaml")

    def resolved(**options: Any) -> object:
        node = omnicfg.resolve(profile, **options).find("stages.0.max_num_seqs")
        return None if node is None else plain(node)

    assert resolved() == 1
    assert resolved(overlays=[one, two]) == 3
    assert resolved(overlays=[two, one]) == 2
    assert resolved(overlays=[one], overrides=["stages.0.max_num_seqs=9"]) == 9
    assert resolved(overrides={"stages.0.max_num_seqs": 8}) == 8


def test_an_overlay_may_be_a_shipped_profile() -> None:
    assert omnicfg.resolve("minicpmo_4_5", overlays=["minicpmo_4_5_turn"]).deploy.value("session_mode") == "turn"


def test_the_pipeline_from_the_argument_the_setting_and_the_file(profile_file: WriteProfile) -> None:
    profile = load(profile_file(TTS))
    setting = parse_overrides(["pipeline=voxcpm2"])
    assert pipeline_of(profile) == "qwen3_tts"
    assert pipeline_of(profile, overrides=setting) == "voxcpm2"
    assert pipeline_of(profile, "glm_image") == "glm_image"
    assert pipeline_of(profile, "voxcpm2", setting) == "voxcpm2"
    assert pipeline_of(profile, overrides=parse_overrides(["pipeline=voxcpm2", "pipeline=glm_image"])) == "glm_image"


def test_an_argument_and_a_setting_for_two_pipelines_contradict_each_other(profile_file: WriteProfile) -> None:
    with pytest.raises(ResolveError, match=r"OC020 pipeline `glm_image` is asked for already") as refused:
        pipeline_of(load(profile_file(TTS)), "glm_image", parse_overrides(["pipeline=voxcpm2"]))
    assert refused.value.diagnostics[0].help == "Ask for one."


def test_one_loaded_profile_serves_all_platforms(profile_file: WriteProfile) -> None:
    profile = load(
        profile_file(TTS + "stages: [{stage_id: 0}]\nplatforms: {npu: {stages: [{stage_id: 0, max_num_seqs: 1}]}}\n")
    )
    plans = {name: compile_profile(profile, name, "qwen3_tts") for name in ("cuda", "npu", "cuda")}
    assert {name: plan.stages[0].arg("max_num_seqs") for name, plan in plans.items()} == {"cuda": None, "npu": 1}


def test_a_refusal_names_the_profile_as_it_was_asked_for(
    profile_file: WriteProfile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(profile_file("model_runner: v3\n", "own/x.yaml").parent.parent)
    with pytest.raises(ResolveError, match=r"^own/x\.yaml:1:15: OC014 "):
        omnicfg.resolve("own/x.yaml")
