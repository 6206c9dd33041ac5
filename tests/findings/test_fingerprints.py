"""What a finding is told apart by."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import omnicfg
from omnicfg.diagnostics import Diagnostic, Severity
from omnicfg.findings.fingerprints import Fingerprints
from tests.conftest import WriteProfile

TTS = "pipeline: qwen3_tts\nasync_chunk: false\n"


def where(profile: Path) -> list[str]:
    fingerprints = Fingerprints()
    return [fingerprints.where(finding) for finding in omnicfg.validate(profile)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x: 1\n", "x"),
        ("stages:\n  - stage_id: 1\n    x: 1\n", "stages.1.x"),
        ("stages: [{stage_id: 0}, {stage_id: 1, x: 1}]\n", "stages.1.x"),
        ("stages:\n  - stage_id: 0\n    engine_args: {max_num_seqs: many}\n", "stages.0.engine_args.max_num_seqs"),
        ("platforms:\n  npu:\n    stages: [{stage_id: 0, x: 1}]\n", "platforms.npu.stages.0.x"),
        ("connectors: {shm: {name: SharedMemoryConnector, extra: {a: 1}}}\nedges: [{from: 0, to: 1}]\n", None),
    ],
)
def test_a_finding_is_at_a_key(profile_file: WriteProfile, text: str, expected: str | None) -> None:
    found = where(profile_file(TTS + text))
    assert found
    assert expected in (None, *found)


def test_the_place_in_the_file_does_not_matter(profile_file: WriteProfile) -> None:
    stages = "stages:\n  - stage_id: 1\n    x: 1\n  - {stage_id: 0}\n"
    before = where(profile_file(TTS + stages))
    after = where(profile_file(TTS + "# new\n\nstages:\n  - {stage_id: 0}\n  - {stage_id: 1, x: 2}\n"))
    assert before == after == ["stages.1.x"]


def test_what_has_no_key_is_told_apart_by_its_message(profile_file: WriteProfile) -> None:
    found = Diagnostic("OC002", "yaml-syntax", Severity.ERROR, "expected this", "nowhere.yaml", 3, 1, 3, 2)
    fingerprints = Fingerprints()
    assert fingerprints.where(found) == fingerprints.where(replace(found, line=9)) == "expected this"
    assert fingerprints.where(replace(found, message="other")) == "other"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("already on line 4", "already on line 12"),
        ("as in base.yaml:4:19", "as in base.yaml:5:2"),
        ("no `x` (in profile a.yaml)", "no `x` (in profile a.yaml and 2 more)"),
    ],
)
def test_lines_and_profiles_in_a_message_do_not_matter(one: str, other: str) -> None:
    found = Diagnostic("OC002", "yaml-syntax", Severity.ERROR, one)
    assert Fingerprints().where(found) == Fingerprints().where(replace(found, message=other))


def test_a_finding_in_a_shipped_profile() -> None:
    found = omnicfg.validate("minicpmo_4_5_turn_mrv2")
    fingerprints = Fingerprints()
    assert found
    assert all(fingerprints.where(one) != one.message for one in found if one.line)


def test_code_path_key_and_stage_all_count() -> None:
    found = Diagnostic("OC101", "unknown-key", Severity.ERROR, "x")
    others = [replace(found, code="OC102"), replace(found, message="y"), replace(found, stage_id=0)]
    digests = {Fingerprints().of(one, "a.yaml").digest for one in (found, *others)}
    digests.add(Fingerprints().of(found, "b.yaml").digest)
    assert len(digests) == 5
    assert Fingerprints().of(replace(found, severity=Severity.NOTE), "a.yaml").digest in digests
