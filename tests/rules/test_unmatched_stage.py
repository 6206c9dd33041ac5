"""OC201: stage entries that configure no stage of the pipeline."""

from __future__ import annotations

import pytest

from tests.conftest import WriteProfile
from tests.rules.checked import findings, told

HEAD = "pipeline: qwen3_tts\nasync_chunk: false\n"

WRONG = {
    "7": ("stage_id 7 matches no stage of pipeline qwen3_tts, so the whole entry is dropped", "Its stages are 0, 1."),
    "-1": ("stage_id -1 matches no stage of pipeline qwen3_tts, so the whole entry is dropped", "Its stages are 0, 1."),
    '"0"': (
        'stage_id "0" matches no stage of pipeline qwen3_tts, so the whole entry is dropped',
        "Write `stage_id: 0` without quotes.",
    ),
    "' 1 '": (
        'stage_id " 1 " matches no stage of pipeline qwen3_tts, so the whole entry is dropped',
        "Write `stage_id: 1` without quotes.",
    ),
    '"7"': (
        'stage_id "7" matches no stage of pipeline qwen3_tts, so the whole entry is dropped',
        "Its stages are 0, 1.",
    ),
    "talker": (
        'stage_id "talker" matches no stage of pipeline qwen3_tts, so the whole entry is dropped',
        "Its stages are 0, 1.",
    ),
}


@pytest.mark.parametrize(("stage_id", "expected"), WRONG.items())
def test_an_id_that_no_stage_has(profile_file: WriteProfile, stage_id: str, expected: tuple[str, str]) -> None:
    (found,) = findings(profile_file(f"{HEAD}stages:\n  - stage_id: {stage_id}\n"), "OC201")
    assert (found.line, found.column, found.message, found.help) == (4, 15, *expected)


def test_in_a_platform_block(profile_file: WriteProfile) -> None:
    (found,) = findings(profile_file(HEAD + "platforms: {npu: {stages: [{stage_id: 3}]}}\n"), "OC201")
    assert (found.line, found.column, found.platform) == (3, 39, "npu")


def test_in_a_base_and_in_an_overlay(profile_file: WriteProfile) -> None:
    base = profile_file(HEAD + "stages: [{stage_id: 8}]\n", "base.yaml")
    overlay = profile_file("stages: [{stage_id: 9}]\n", "overlay.yaml")
    found = findings(profile_file("base_config: base.yaml\n", "top.yaml"), "OC201", overlays=[overlay])
    assert sorted((one.path, one.line, one.column) for one in found) == [(str(base), 3, 21), (str(overlay), 1, 21)]


@pytest.mark.parametrize("stage_id", ["true", "1.0"])
def test_an_id_that_equals_a_stages_matches_it_as_it_does_upstream(profile_file: WriteProfile, stage_id: str) -> None:
    profile = profile_file(f"{HEAD}stages: [{{stage_id: {stage_id}}}]\n")
    assert told(profile, "OC201") == []
    assert len(told(profile, "OC102")) == 1


def test_a_platform_block_for_a_stage_that_is_not_listed(profile_file: WriteProfile) -> None:
    text = HEAD + "stages: [{stage_id: 0}]\nplatforms: {npu: {stages: [{stage_id: 1, max_num_seqs: 1}]}}\n"
    (found,) = findings(profile_file(text), "OC201")
    assert (found.line, found.column, found.platform) == (4, 39, "npu")
    assert found.message == "`stages` lists no stage 1, so what the npu block sets for it is dropped"
    assert found.help == "Add `- stage_id: 1` to `stages`."


def test_a_platform_block_of_a_base_for_a_stage_that_the_profile_lists(profile_file: WriteProfile) -> None:
    profile_file(HEAD + "platforms: {npu: {stages: [{stage_id: 1, max_num_seqs: 1}]}}\n", "base.yaml")
    top = profile_file("base_config: base.yaml\nstages: [{stage_id: 1}]\n", "top.yaml")
    assert told(top, "OC201") == []


def test_an_unknown_platform_is_another_rules_matter(profile_file: WriteProfile) -> None:
    assert told(profile_file(HEAD + "platforms: {NPU: {stages: [{stage_id: 3}]}}\n"), "OC201") == []


def test_without_a_pipeline_no_id_is_wrong(profile_file: WriteProfile) -> None:
    assert told(profile_file("stages: [{stage_id: 99}]\n", "unheard_of.yaml"), "OC201") == []


def test_a_setting_for_a_stage_that_is_not_there_is_refused(profile_file: WriteProfile) -> None:
    found = findings(profile_file(HEAD), "OC020", overrides=["stages.5.devices='0'"])
    assert [(one.message, one.help) for one in found] == [("pipeline qwen3_tts has no stage 5", "Its stages are 0, 1.")]
