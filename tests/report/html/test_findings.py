"""Findings as HTML: the part of the line that one is about, whatever the line is like."""

from __future__ import annotations

from pathlib import Path
from xml.etree.ElementTree import Element

import pytest

from omnicfg.diagnostics import Diagnostic, Severity
from omnicfg.report.html.findings import findings_section


def finding(path: Path, line: int, columns: tuple[int, int], severity: Severity = Severity.ERROR) -> Diagnostic:
    return Diagnostic("OC101", "unknown-key", severity, "m", str(path), line, columns[0], line, columns[1])


def excerpt(section: Element) -> list[str]:
    """The text before the mark, marked, and after it."""
    code = section.find(".//pre/code")
    assert code is not None
    mark = code.find("mark")
    assert mark is not None
    return [code.text or "", mark.text or "", mark.tail or ""]


@pytest.mark.parametrize(
    ("text", "columns", "shown"),
    [
        ("  max_num_seq: 8", (3, 14), ["  ", "max_num_seq", ": 8"]),
        ("x: 8", (1, 1), ["", "x", ": 8"]),
        ("a: 音声x", (4, 6), ["a: ", "音声", "x"]),
        ("api_key: abc-123  # x", (1, 8), ["", "api_key", ": ***"]),
        ("api_key: abc-123", (10, 17), ["api_key: ", "***", ""]),
        ("a" * 400 + "KEY" + "b" * 400, (401, 404), ["…" + "a" * 160, "KEY", "b" * 160 + "…"]),
        ("a: " + "v" * 900_000, (4, 900_004), ["a: ", "v" * 160 + "…", ""]),
    ],
)
def test_the_line_of_a_finding(tmp_path: Path, text: str, columns: tuple[int, int], shown: list[str]) -> None:
    path = tmp_path / "profile.yaml"
    path.write_text(f"{text}\n", encoding="utf-8")
    assert excerpt(findings_section([finding(path, 1, columns)])) == shown


def test_a_finding_without_a_place_has_no_line(tmp_path: Path) -> None:
    section = findings_section([finding(tmp_path / "gone.yaml", 3, (1, 2)), finding(tmp_path / "gone.yaml", 0, (0, 0))])
    assert section.find(".//pre") is None
    assert len(section.findall(".//li")) == 2


def test_files_with_the_worst_findings_come_first(tmp_path: Path) -> None:
    found = [
        finding(tmp_path / "a.yaml", 1, (1, 2), Severity.NOTE),
        finding(tmp_path / "b.yaml", 1, (1, 2), Severity.ERROR),
    ]
    paths = [each.text for each in findings_section(found).findall(".//summary/code")]
    assert paths == [str(tmp_path / "b.yaml"), str(tmp_path / "a.yaml")]
