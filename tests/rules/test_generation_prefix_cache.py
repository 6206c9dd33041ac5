"""OC707: prefix caches of stages that generate no text."""

from __future__ import annotations

import pytest

import omnicfg
from omnicfg.diagnostics import Severity
from tests.conftest import WriteProfile
from tests.rules.checked import findings, told
from tests.rules.places import PLACES, set_at, wrong_file

HEAD = "pipeline: covo_audio\nasync_chunk: false\n"


@pytest.mark.parametrize("place", PLACES)
def test_in_every_place_once(profile_file: WriteProfile, place: str) -> None:
    found = set_at(place, profile_file, "enable_prefix_caching", "true", stage_id=1, pipeline="covo_audio")
    assert [(one.code, one.severity, one.stage_id) for one in found] == [("OC707", Severity.WARNING, 1)]
    assert found[0].path.endswith(wrong_file(place))
    assert found[0].platform == ("npu" if place == "platform" else None)


def test_a_cache_for_all_stages_is_told_where_it_is_set(profile_file: WriteProfile) -> None:
    (found,) = findings(profile_file(HEAD + "enable_prefix_caching: true\n"), "OC707")
    assert (found.line, found.column, found.stage_id) == (3, 24, 1)
    assert found.help == "Set `enable_prefix_caching: false` for stage 1."


@pytest.mark.parametrize(
    "text",
    [
        "",
        "enable_prefix_caching: false\n",
        "enable_prefix_caching: true\nstages: [{stage_id: 1, enable_prefix_caching: false}]\n",
        "stages: [{stage_id: 0, enable_prefix_caching: true}]\n",
    ],
)
def test_what_is_off_or_generates_text(profile_file: WriteProfile, text: str) -> None:
    assert told(profile_file(HEAD + text), "OC707") == []


def test_what_a_record_says_of_the_stage_is_the_records(profile_file: WriteProfile) -> None:
    found = omnicfg.validate(profile_file("pipeline: qwen3_tts\nasync_chunk: false\nenable_prefix_caching: true\n"))
    assert [(one.code, one.stage_id) for one in found] == [("OC501", 0), ("OC501", 1)]


def test_the_bundled_engine_runs_no_such_stage_on_vllm(profile_file: WriteProfile) -> None:
    assert told(profile_file(HEAD + "enable_prefix_caching: true\n"), "OC707", engine="bundled") == []
