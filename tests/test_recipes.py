"""Overlays that are shown to a user do what is said of them."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnicfg
from omnicfg.commands._plans import Request
from omnicfg.recipes import overlay_for
from tests.conftest import WriteProfile


def recipe(profile: str | Path, settings: list[str] | None = None) -> str | None:
    request = Request(str(profile), settings=settings)
    return overlay_for(request.loaded, "cuda", request.pipeline, 0, "enable_prefix_caching", False, request.overrides)


@pytest.mark.parametrize("profile", ["qwen3_omni_moe", "minicpmo_4_5_turn", "aura_omni", "higgs_multimodal_qwen3"])
def test_the_overlay_turns_the_cache_off(profile: str, tmp_path: Path) -> None:
    text = recipe(profile)
    assert text is not None
    overlay = tmp_path / "overlay.yaml"
    overlay.write_text(text.partition("\n")[2])
    assert omnicfg.resolve(profile).stages[0].arg("enable_prefix_caching") is True
    assert omnicfg.resolve(profile, overlays=[overlay]).stages[0].arg("enable_prefix_caching") is False


def test_it_is_the_one_that_people_write() -> None:
    assert recipe("qwen3_omni_moe") == (
        "base_config: qwen3_omni_moe.yaml\nstages:\n  - stage_id: 0\n    enable_prefix_caching: false\n"
    )


def test_a_platform_block_is_beaten_by_a_platform_block() -> None:
    assert recipe("minicpmo_4_5_turn") == (
        "base_config: minicpmo_4_5_turn.yaml\nplatforms:\n  cuda:\n    stages:\n      - stage_id: 0\n"
        "        enable_prefix_caching: false\n"
    )


def test_engine_extras_are_beaten_by_engine_extras(profile_file: WriteProfile) -> None:
    path = profile_file(
        "pipeline: qwen3_tts\nasync_chunk: false\n"
        "stages:\n  - {stage_id: 0, engine_extras: {enable_prefix_caching: true}}\n"
    )
    text = recipe(path)
    assert text is not None
    assert "engine_extras" in text


def test_nothing_beats_the_command_line() -> None:
    assert recipe("qwen3_omni_moe", settings=["stages.0.enable_prefix_caching=true"]) is None
