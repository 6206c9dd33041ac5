"""A report of findings as GitLab's Code Quality report."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import jsonschema

from omnicfg.diagnostics import Diagnostic, Severity
from omnicfg.findings.review import Report
from omnicfg.report.formats.gitlab import render
from tests.report.formats.conftest import ReportOf

FOUND = Diagnostic("OC101", "unknown-key", Severity.ERROR, "no `x`", "a.yaml", 3, 5, 3, 6, "npu", 0, "Remove it.")

# What https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format asks for.
_TEXT: dict[str, Any] = {"type": "string", "minLength": 1}
_LINE: dict[str, Any] = {"type": "integer", "minimum": 1}
_LINES = {"type": "object", "properties": {"begin": _LINE, "end": _LINE}, "required": ["begin"]}
_LOCATION = {
    "type": "object",
    "properties": {"path": {"type": "string", "pattern": r"^(?!\./|/)."}, "lines": _LINES},
    "required": ["path", "lines"],
}
_ENTRY: dict[str, Any] = {
    "type": "object",
    "properties": {
        "description": _TEXT,
        "check_name": _TEXT,
        "fingerprint": _TEXT,
        "severity": {"enum": ["info", "minor", "major", "critical", "blocker"]},
        "location": _LOCATION,
    },
    "required": ["description", "check_name", "fingerprint", "severity", "location"],
}


def entries(report: Report) -> Any:
    found = json.loads(render(report))
    jsonschema.validate(found, {"type": "array", "items": _ENTRY})
    return found


def test_a_finding_is_an_entry() -> None:
    (entry,) = entries(Report([FOUND], []))
    assert entry["description"] == "no `x` (on npu)\nRemove it."
    assert entry["check_name"] == "OC101 unknown-key"
    assert entry["severity"] == "major"
    assert entry["location"]["lines"] == {"begin": 3, "end": 3}


def test_severities() -> None:
    found = [replace(FOUND, severity=severity) for severity in Severity]
    assert [entry["severity"] for entry in entries(Report(found, []))] == ["major", "minor", "info"]


def test_paths_are_those_of_the_repository(report_on: ReportOf) -> None:
    report = report_on({"deploy/a.yaml": "pipeline: qwen3_tts\nasync_chunk: false\nx: 1\n"}, "deploy")
    assert [entry["location"]["path"] for entry in entries(report)] == ["deploy/a.yaml"]


def test_what_has_no_place_in_a_file() -> None:
    found = [replace(FOUND, line=0, end_line=0), replace(FOUND, path=""), replace(FOUND, path="--set x=1")]
    places = [(entry["location"]["path"], entry["location"]["lines"]["begin"]) for entry in entries(Report(found, []))]
    assert [path for path, _ in places][1:] == [".", "--set x=1"]
    assert places[0][1] == 1


def test_no_two_entries_have_one_fingerprint() -> None:
    fingerprints = [entry["fingerprint"] for entry in entries(Report([FOUND, FOUND, FOUND], []))]
    assert len(set(fingerprints)) == 3


def test_an_empty_report() -> None:
    assert entries(Report([], ["a.yaml"])) == []
