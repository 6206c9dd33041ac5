"""What a help says to set counts: over a ``--set`` only another one does, over a platform's block only that block."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import omnicfg
from omnicfg.diagnostics import Diagnostic
from omnicfg.errors import ResolveError
from tests.conftest import WriteProfile

TTS = "pipeline: qwen3_tts\nasync_chunk: false\n"
OMNI = "pipeline: qwen3_omni_moe\nasync_chunk: false\n"
IMAGE = "pipeline: glm_image\nasync_chunk: false\n"


def checked(profile: Path, settings: Sequence[str]) -> list[Diagnostic]:
    try:
        return list(omnicfg.validate(profile, overrides=settings))
    except ResolveError as error:
        return list(error.diagnostics)


@pytest.mark.parametrize(
    ("text", "setting", "code", "remedy", "more"),
    [
        ("pipeline: glm_image\n", "async_chunk=true", "OC016", "async_chunk=false", "."),
        (OMNI, "enable_prefix_caching=true", "OC501", "stages.1.enable_prefix_caching=false", "."),
        (OMNI, "stages.1.enable_prefix_caching=true", "OC501", "stages.1.enable_prefix_caching=false", "."),
        (OMNI, "stages.1.enable_prefix_caching=null", "OC501", "stages.1.enable_prefix_caching=false", "."),
        (
            "pipeline: cosyvoice3\nasync_chunk: false\n",
            "model_runner=v2",
            "OC502",
            "model_runner=v1",
            ", unless you are validating MRv2 for this model.",
        ),
        (TTS, "session_mode=duplex", "OC403", "session_mode=turn", ", which is what runs."),
        (
            "pipeline: dreamzero\n",
            "enable_prefix_caching=true",
            "OC703",
            "stages.0.enable_prefix_caching=false",
            ", or `diffusion_kv_mode: paged_scheduler`.",
        ),
        (
            "pipeline: covo_audio\nasync_chunk: false\n",
            "enable_prefix_caching=true",
            "OC707",
            "stages.1.enable_prefix_caching=false",
            ".",
        ),
    ],
)
def test_over_a_set_goes_another_one(
    profile_file: WriteProfile, text: str, setting: str, code: str, remedy: str, more: str
) -> None:
    profile = profile_file(text)
    helps = [one.help for one in checked(profile, [setting]) if one.code == code]
    assert f"Give `--set {remedy}`{more}" in helps
    left = [one.help for one in checked(profile, [setting, remedy]) if one.code == code]
    assert f"Give `--set {remedy}`{more}" not in left


RUNNER = "`--set model_runner=v2` holds on every platform and goes over every file: leave it out on this one."


@pytest.mark.parametrize("text", [TTS, TTS + "platforms:\n  npu: {model_runner: v1}\n  xpu: {model_runner: v1}\n"])
def test_a_platforms_block_does_not_save_a_profile_from_a_set(profile_file: WriteProfile, text: str) -> None:
    found = [one for one in checked(profile_file(text), ["model_runner=v2"]) if one.code == "OC015"]
    assert [(one.platform, one.help) for one in found] == [("npu,xpu", RUNNER)]


def test_what_a_platforms_block_says_is_set_there(profile_file: WriteProfile) -> None:
    found = checked(profile_file(TTS + "platforms:\n  npu: {model_runner: v2}\n"), [])
    assert [one.help for one in found if one.code == "OC015"] == ["Set `model_runner: v1` in the block of npu."]
    block = "platforms:\n  npu:\n    stages: [{stage_id: 1, enable_prefix_caching: true}]\n"
    found = checked(profile_file(OMNI + "stages: [{stage_id: 1, enable_prefix_caching: false}]\n" + block), [])
    helps = [one.help for one in found if one.code == "OC501" and one.platform == "npu" and one.stage_id == 1]
    assert helps == ["Set `enable_prefix_caching: false` for stage 1 in the block of npu."]


def test_what_an_overlay_says_is_for_all_platforms_as_in_any_file(profile_file: WriteProfile) -> None:
    overlay = profile_file("model_runner: v2\n", "overlay.yaml")
    found = omnicfg.validate(profile_file(TTS), overlays=[overlay])
    assert [(Path(one.path).name, one.help) for one in found if one.code == "OC015"] == [
        ("overlay.yaml", "Set `model_runner: v1` in the block of the platform, under `platforms:`.")
    ]


@pytest.mark.parametrize(
    ("keys", "setting", "code", "start"),
    [
        (
            "additional_config: {a: 1}",
            "stages.1.additional_config=null",
            "OC306",
            "Leave the key out to keep the block",
        ),
        (
            "default_sampling_params: {stop_token_ids: [1, 2]}",
            "stages.1.default_sampling_params.stop_token_ids=[3]",
            "OC305",
            "Repeat the items that should stay",
        ),
    ],
)
def test_no_comment_is_asked_for_where_there_is_no_file(
    profile_file: WriteProfile, keys: str, setting: str, code: str, start: str
) -> None:
    profile = profile_file(IMAGE + f"stages:\n  - {{stage_id: 0}}\n  - stage_id: 1\n    {keys}\n")
    (help_,) = (one.help for one in checked(profile, [setting]) if one.code == code)
    assert help_ is not None
    assert help_.startswith(start)
    assert help_.endswith(f", say so in an overlay, with `# omnicfg: ignore[{code}] because ...`.")
