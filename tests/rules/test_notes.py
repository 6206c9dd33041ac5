"""OC604 and OC801: what a setting costs and what else it changes, by the models' records."""

from __future__ import annotations

import pytest

import omnicfg
from omnicfg.diagnostics import Severity
from tests.conftest import WriteProfile
from tests.rules.checked import findings, told
from tests.rules.places import PLACES, set_at, wrong_file

QWEN = "pipeline: qwen3_omni_moe\nstages:\n  - {stage_id: 1, enable_prefix_caching: false}\n"
ON = QWEN + "  - {stage_id: 0, enable_prefix_caching: true}\n"


def test_what_the_cache_costs_where_it_was_measured(profile_file: WriteProfile) -> None:
    (found,) = findings(profile_file(ON), "OC604")
    assert (found.severity, found.line, found.column, found.platform, found.stage_id) == (
        Severity.NOTE,
        4,
        42,
        "cuda",
        0,
    )
    assert found.message.startswith(
        "the prefix cache of stage 0 (thinker) costs 9.9 to 10.9 GiB of host memory "
        "(15.2 to 16.1 with it, 5.2 to 5.3 without), as measured for Qwen3-Omni ["
    )
    assert found.help == "`stages.0.enable_prefix_caching: false`, in an overlay or as `--set`, turns it off."


def test_a_cache_that_is_left_to_vllm_costs_the_same(profile_file: WriteProfile) -> None:
    assert [(line, column) for line, column, _ in told(profile_file(QWEN + "  - {stage_id: 0}\n"), "OC604")] == [
        (4, 16)
    ]


def test_what_is_off_or_was_not_measured_costs_nothing_that_is_known(profile_file: WriteProfile) -> None:
    assert told(profile_file(ON.replace("true", "false")), "OC604") == []
    assert told(profile_file(ON), "OC604", engine="bundled") == []
    assert told(profile_file("pipeline: cosyvoice3\nasync_chunk: false\n"), "OC604") == []


@pytest.mark.parametrize("place", [place for place in PLACES if place != "platform"])
def test_effects_of_a_cache_in_every_place(profile_file: WriteProfile, place: str) -> None:
    told = set_at(place, profile_file, "enable_prefix_caching", "true", pipeline="minicpmo_4_5", head="")
    found = [one for one in told if one.code == "OC801"]
    assert len({one.message for one in found}) == len(found) == 2
    assert {one.path.endswith(wrong_file(place)) for one in found} == {True}


def test_the_effects_of_a_thinkers_cache(profile_file: WriteProfile) -> None:
    found = findings(profile_file(ON), "OC801")
    assert {(one.severity, one.line, one.column, one.stage_id, one.platform) for one in found} == {
        (Severity.NOTE, 4, 42, 0, None)
    }
    assert any("incremental prefill" in one.message for one in found)
    assert all(one.message.startswith("`enable_prefix_caching: true` also has this effect on stage 0") for one in found)
    assert all(one.message.endswith("]") for one in found)


def test_an_effect_of_two_settings_together(profile_file: WriteProfile) -> None:
    text = "pipeline: aura_omni\nasync_chunk: false\nsession_mode: duplex\n"
    (found,) = findings(profile_file(text), "OC801", platform="cuda")
    assert (found.line, found.column) == (2, 14)
    assert found.message.startswith("`session_mode: duplex` with `async_chunk: false` also has this effect on stage 2 ")
    assert told(profile_file(text.replace("duplex", "turn")), "OC801") == []


def test_notes_are_no_findings_to_fail_on() -> None:
    notes = [one for one in omnicfg.validate("qwen3_omni_moe") if one.code in ("OC604", "OC801")]
    assert notes
    assert {one.severity for one in notes} == {Severity.NOTE}


def test_what_a_record_refuses_has_no_effects_worth_a_note(profile_file: WriteProfile) -> None:
    codes = {one.code for one in omnicfg.validate(profile_file(ON + "session_mode: duplex\n"))}
    assert "OC501" in codes
    assert not codes & {"OC604", "OC801"}
