"""OC203: two entries of one list for the same stage."""

from __future__ import annotations

import pytest

import omnicfg
from tests.conftest import WriteProfile
from tests.rules.checked import findings, told

HEAD = "pipeline: qwen3_tts\nasync_chunk: false\n"
TWO = "  - stage_id: 0\n    max_num_seqs: 3\n  - stage_id: 0\n    max_model_len: 2048\n"


def test_the_second_entry_is_pointed_at_and_the_first_one_named(profile_file: WriteProfile) -> None:
    (found,) = findings(profile_file(f"{HEAD}stages:\n{TWO}"), "OC203")
    assert (found.line, found.column, found.platform) == (6, 15, None)
    assert (found.message, found.help) == (
        "stage 0 already has an entry, on line 4",
        "Make one entry of the two.",
    )


def test_what_it_warns_of_the_first_entry_is_lost(profile_file: WriteProfile) -> None:
    stage = omnicfg.resolve(profile_file(f"{HEAD}stages:\n{TWO}")).stage(0)
    assert stage is not None
    assert (stage.arg("max_num_seqs"), stage.arg("max_model_len")) == (None, 2048)


def test_each_further_entry_is_told(profile_file: WriteProfile) -> None:
    profile = profile_file(HEAD + "stages: [{stage_id: 1}, {stage_id: 0}, {stage_id: 1}, {stage_id: 1}]\n")
    assert [(line, column) for line, column, _ in told(profile, "OC203")] == [(3, 51), (3, 66)]


def test_in_a_platform_block(profile_file: WriteProfile) -> None:
    text = f"{HEAD}stages: [{{stage_id: 0}}]\nplatforms:\n  npu:\n    stages: [{{stage_id: 0}}, {{stage_id: 0}}]\n"
    (found,) = findings(profile_file(text), "OC203")
    assert (found.line, found.column, found.platform) == (6, 40, "npu")


@pytest.mark.parametrize("upper", ["stages: [{stage_id: 0, max_num_seqs: 1}]\n", "{}\n"])
def test_an_entry_of_a_file_on_top_is_no_repetition(profile_file: WriteProfile, upper: str) -> None:
    overlay = profile_file(upper, "overlay.yaml")
    profile = profile_file(HEAD + "stages: [{stage_id: 0}]\nplatforms: {npu: {stages: [{stage_id: 0}]}}\n")
    assert told(profile, "OC203", overlays=[overlay], overrides=["stages.0.max_num_seqs=4"]) == []
