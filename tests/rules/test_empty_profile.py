"""OC205: a file that sets nothing."""

from __future__ import annotations

import pytest

import omnicfg
from tests.conftest import WriteProfile

HEAD = "pipeline: qwen3_tts\nasync_chunk: false\n"


def places(write: WriteProfile, text: str, **options: object) -> list[tuple[str, int, int]]:
    found = omnicfg.validate(write(text), **options)  # type: ignore[arg-type]
    return [(one.path.rpartition("/")[2], one.line, one.column) for one in found if one.code == "OC205"]


@pytest.mark.parametrize("text", ["", "# later\n", "{}\n", "pipeline: qwen3_tts\n", "base_config: null\nstages: []\n"])
def test_a_profile_without_a_setting(profile_file: WriteProfile, text: str) -> None:
    assert places(profile_file, text, pipeline="qwen3_tts") == [("profile.yaml", 1, 1)]


def test_one_setting_is_enough(profile_file: WriteProfile) -> None:
    assert places(profile_file, HEAD) == []
    assert places(profile_file, "pipeline: qwen3_tts\n", overrides=["async_chunk=false"]) == []


def test_a_profile_that_only_has_a_base(profile_file: WriteProfile) -> None:
    profile_file(HEAD, "base.yaml")
    assert places(profile_file, "base_config: base.yaml\n") == []


def test_an_empty_base_or_overlay(profile_file: WriteProfile) -> None:
    empty = profile_file("", "empty.yaml")
    assert places(profile_file, f"{HEAD}base_config: empty.yaml\n") == [("empty.yaml", 1, 1)]
    assert places(profile_file, HEAD, overlays=[empty]) == [("empty.yaml", 1, 1)]


def test_an_empty_profile_under_an_overlay(profile_file: WriteProfile) -> None:
    overlay = profile_file(HEAD, "overlay.yaml")
    assert places(profile_file, "", overlays=[overlay]) == [("profile.yaml", 1, 1)]


def test_what_cannot_be_compiled_is_told_of_that_alone(profile_file: WriteProfile) -> None:
    assert [one.code for one in omnicfg.validate(profile_file("pipeline: glm_image\n"))] == ["OC016"]
