"""Which pipeline a profile configures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import omnicfg
from omnicfg.errors import ResolveError
from omnicfg.passes.inherit import inherit
from omnicfg.passes.pipeline import find_pipeline, guess_pipeline, pipeline_of_model
from tests.conftest import WriteProfile


def found(profile: Path, asked: str | None = None, model: Path | None = None) -> str:
    raw, chain = inherit(profile, profile.name)
    return find_pipeline(raw, profile, chain, asked, model)


def model_dir(folder: Path, config: dict[str, Any] | None = None, index: dict[str, Any] | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (("config.json", config), ("model_index.json", index)):
        if content is not None:
            (folder / name).write_text(json.dumps(content), encoding="utf-8")
    return folder


# -------------------------------------------------------------------------------------------------- precedence
def test_the_one_that_is_asked_for_wins(profile_file: WriteProfile) -> None:
    assert found(profile_file("pipeline: qwen3_tts\n"), asked="glm_image") == "glm_image"


def test_the_one_that_the_file_names(profile_file: WriteProfile, tmp_path: Path) -> None:
    model = model_dir(tmp_path / "model", {"model_type": "glm_image"})
    assert found(profile_file("pipeline: qwen3_tts\n"), model=model) == "qwen3_tts"


def test_the_one_that_a_base_names(profile_file: WriteProfile) -> None:
    profile_file("pipeline: qwen3_tts\n", "base.yaml")
    assert found(profile_file("base_config: base.yaml\n")) == "qwen3_tts"


def test_null_names_none(profile_file: WriteProfile) -> None:
    assert found(profile_file("pipeline: null\n", "glm_image.yaml")) == "glm_image"


def test_the_one_that_serves_the_model(profile_file: WriteProfile, tmp_path: Path) -> None:
    model = model_dir(tmp_path / "model", {"model_type": "qwen3_tts"})
    assert found(profile_file("async_chunk: false\n", "glm_image.yaml"), model=model) == "qwen3_tts"


def test_the_one_whose_default_file_it_is(profile_file: WriteProfile) -> None:
    assert found(profile_file("", "qwen3_omni_moe.yaml")) == "qwen3_omni_moe"


def test_the_one_whose_default_file_a_base_is(profile_file: WriteProfile) -> None:
    profile_file("", "qwen3_tts.yaml")
    assert found(profile_file("base_config: qwen3_tts.yaml\n", "mine.yaml")) == "qwen3_tts"


# ------------------------------------------------------------------------------------------------------ refusals
@pytest.mark.parametrize(
    ("name", "help_text"),
    [
        (
            "qwen3_tts_high_concurrency.yaml",
            "Add `pipeline: qwen3_tts` or pass `--pipeline qwen3_tts`.",
        ),
        (
            "glm_imagine.yaml",
            "Add `pipeline: KEY` or pass `--pipeline KEY`; near candidates: glm_image, glm_tts.",
        ),
        (
            "zzz.yaml",
            "Add `pipeline: KEY` or pass `--pipeline KEY`; `omnicfg schema pipelines` lists the keys.",
        ),
    ],
)
def test_a_profile_that_nothing_assigns_names_its_candidates(
    profile_file: WriteProfile, name: str, help_text: str
) -> None:
    with pytest.raises(ResolveError) as refused:
        found(profile_file("async_chunk: false\n", name))
    (reason,) = refused.value.diagnostics
    assert (reason.code, reason.line, reason.column) == ("OC013", 1, 1)
    assert reason.message == "nothing says which pipeline this profile configures"
    assert reason.help == help_text


def test_a_model_that_nobody_serves(profile_file: WriteProfile, tmp_path: Path) -> None:
    model = model_dir(tmp_path / "model", {"model_type": "llama"})
    with pytest.raises(ResolveError, match="OC013 no pipeline serves the model in "):
        found(profile_file("async_chunk: false\n"), model=model)


@pytest.mark.parametrize(
    ("key", "help_text"),
    [
        ("qwen3_omni_mo", "Did you mean `qwen3_omni_moe`?"),
        ("Qwen3-TTS", "Did you mean `qwen3_tts`?"),
        ("llama", "`omnicfg schema pipelines` lists them."),
        ("[qwen3_tts]", "Did you mean `qwen3_tts`?"),
        ("5", "`omnicfg schema pipelines` lists them."),
    ],
)
def test_a_key_that_is_not_registered(profile_file: WriteProfile, key: str, help_text: str) -> None:
    with pytest.raises(ResolveError) as refused:
        found(profile_file(f"\npipeline: {key}\n"))
    (reason,) = refused.value.diagnostics
    assert (reason.code, reason.line, reason.column, reason.help) == ("OC012", 2, 11, help_text)


@pytest.mark.parametrize(("value", "said"), [("null", "null"), ("5", "5"), ("true", "true")])
def test_a_setting_that_is_no_name_is_told_as_it_was_written(value: str, said: str) -> None:
    with pytest.raises(ResolveError, match=f"OC012 a pipeline is named by text, not by {said}$"):
        omnicfg.resolve("qwen3_tts", overrides=[f"pipeline={value}"])


def test_an_asked_for_key_that_is_not_registered(profile_file: WriteProfile) -> None:
    with pytest.raises(ResolveError, match="--pipeline: OC012 no pipeline `qwen3_ts`"):
        omnicfg.resolve(profile_file("pipeline: qwen3_tts\n"), pipeline="qwen3_ts")


# -------------------------------------------------------------------------------------------------------- guesses
@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("qwen3_tts", "qwen3_tts"),
        ("qwen3_tts_high_concurrency", "qwen3_tts"),
        ("Qwen3-TTS-large", "qwen3_tts"),
        ("qwen3_ttsx", None),
        ("my_qwen3_tts", None),
        ("qwen3", None),
    ],
)
def test_a_file_name_may_point_to_a_pipeline(name: str, key: str | None) -> None:
    assert guess_pipeline(Path(f"{name}.yaml")) == key


# --------------------------------------------------------------------------------------------------------- models
@pytest.mark.parametrize(
    ("config", "key"),
    [
        ({"model_type": "qwen3_tts"}, "qwen3_tts"),
        ({"architecture": "qwen3_tts"}, "qwen3_tts"),
        ({"model_type": "qwen3_omni_moe"}, "qwen3_omni_moe"),
        ({"model_type": "qwen3_omni_moe", "enable_audio_output": False}, "qwen3_omni_moe_thinker_only"),
        ({"model_type": "qwen3_omni_moe", "enable_audio_output": True}, "qwen3_omni_moe"),
        ({"model_type": "minicpmo", "architectures": ["MiniCPMO"], "version": "4.5"}, "minicpmo_4_5"),
        ({"model_type": "minicpmo", "architectures": ["MiniCPMO"], "version": "2.6"}, None),
        ({"model_type": "llama", "architectures": ["GlmImageForConditionalGeneration"]}, "glm_image"),
        ({"model_type": "vla"}, None),
        ({"model_type": "llama"}, None),
    ],
)
def test_the_config_of_a_model(tmp_path: Path, config: dict[str, Any], key: str | None) -> None:
    assert pipeline_of_model(model_dir(tmp_path / "model", config)) == key


def test_a_type_that_counts_only_under_conditions(tmp_path: Path) -> None:
    config = {
        "model_type": "vla",
        "action_head_cfg": {
            "_target_": "groot.vla.model.dreamzero.action_head.wan_flow_matching_action_tf.WANPolicyHead",
            "config": {
                "diffusion_model_cfg": {
                    "_target_": "groot.vla.model.dreamzero.modules.wan_video_dit_action_casual_chunk.CausalWanModel"
                }
            },
        },
    }
    assert pipeline_of_model(model_dir(tmp_path / "model", config)) == "dreamzero"


def test_a_diffusers_model(tmp_path: Path) -> None:
    assert pipeline_of_model(model_dir(tmp_path / "model", index={"_class_name": "GlmImagePipeline"})) == "glm_image"


def test_the_longest_key_in_the_name_of_the_directory(tmp_path: Path) -> None:
    assert pipeline_of_model(model_dir(tmp_path / "My-Qwen3-Omni-MoE-30B", {})) == "qwen3_omni_moe"
    assert pipeline_of_model(model_dir(tmp_path / "nothing", {})) is None


def test_a_type_that_is_told_forbids_guessing_by_name(tmp_path: Path) -> None:
    assert pipeline_of_model(model_dir(tmp_path / "qwen3-tts", {"model_type": "llama"})) is None


def test_a_model_directory_that_is_not_there_is_told_whatever_else_names_the_pipeline(
    profile_file: WriteProfile, tmp_path: Path
) -> None:
    with pytest.raises(ResolveError, match="no model directory"):
        found(profile_file("pipeline: qwen3_tts\n"), model=tmp_path / "nowhere")
