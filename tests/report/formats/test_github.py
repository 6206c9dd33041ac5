"""A report of findings as workflow commands of GitHub Actions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from omnicfg.diagnostics import Diagnostic, Severity
from omnicfg.findings.review import Report
from omnicfg.report.formats.github import render
from tests.report.formats.conftest import ReportOf

FOUND = Diagnostic("OC101", "unknown-key", Severity.ERROR, "no `x`", "a.yaml", 3, 5, 3, 6, None, 0, "Remove it.")


def line(finding: Diagnostic) -> str:
    (only,) = render(Report([finding], [])).splitlines()
    return only


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)


def test_a_finding_is_a_command() -> None:
    assert line(FOUND) == (
        "::error file=a.yaml,line=3,endLine=3,col=5,endColumn=6,title=OC101 unknown-key::"
        f"no `x`%0ARemove it.%0A{FOUND.url}"
    )


@pytest.mark.parametrize(("severity", "command"), [("error", "error"), ("warning", "warning"), ("note", "notice")])
def test_the_severity_is_the_command(severity: str, command: str) -> None:
    assert line(replace(FOUND, severity=Severity(severity))).startswith(f"::{command} ")


def test_columns_of_several_lines_are_left_out() -> None:
    assert "line=3,endLine=4,title=" in line(replace(FOUND, end_line=4))


def test_what_has_no_place_in_a_file() -> None:
    assert line(replace(FOUND, line=0, column=0)).startswith("::error file=a.yaml,title=")
    assert line(replace(FOUND, path="--set x=1")).startswith("::error title=")


def test_what_github_cannot_mark_says_where_it_is() -> None:
    assert line(replace(FOUND, path="../base.yaml")) == (
        f"::error title=OC101 unknown-key::../base.yaml:3:5: no `x`%0ARemove it.%0A{FOUND.url}"
    )
    assert "::--set x=1\\n::error:::3:5: no `x`" in line(replace(FOUND, path="--set x=1\n::error::"))
    assert "::no `x`" in line(replace(FOUND, path="", line=0, column=0))


def test_nothing_that_a_file_quotes_ends_a_command_or_begins_one() -> None:
    found = replace(FOUND, path="a,b:c%.yaml", message="100% of\n::error::it\r\n", name="unknown-key")
    assert line(found).startswith("::error file=a%2Cb%3Ac%25.yaml,line=3,")
    assert "::100%25 of\\n::error::it\\r\\n%0ARemove it." in line(found)


def test_paths_are_those_of_the_repository(report_on: ReportOf) -> None:
    report = report_on({"deploy/sub/a.yaml": "pipeline: qwen3_tts\nasync_chunk: false\nx: 1\n"}, "deploy/sub")
    assert "file=deploy/sub/a.yaml," in render(report)


def test_without_findings_nothing_is_printed() -> None:
    assert render(Report([], ["a.yaml"])) == ""
