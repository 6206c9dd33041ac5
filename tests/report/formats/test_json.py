"""A report of findings as JSON."""

from __future__ import annotations

import json
from typing import Any

from omnicfg.diagnostics import Diagnostic, Edit, Fix, Severity
from omnicfg.findings.review import Report
from omnicfg.report.formats.json import render
from omnicfg.tree import Mark

FIX = Fix("rename it", (Edit(Mark("a.yaml", 1, 2, 1, 5), "max_num_seqs"),), safe=False)
FOUND = Diagnostic("OC101", "unknown-key", Severity.WARNING, "x", "a.yaml", 1, 2, 1, 5, stage_id=0, fix=FIX)


def rendered(report: Report) -> Any:
    return json.loads(render(report))


def test_findings_are_counted() -> None:
    summary = rendered(Report([FOUND], ["a.yaml", "b.yaml"], suppressed=3, baselined=4))["summary"]
    assert summary == {"profiles": 2, "error": 0, "warning": 1, "note": 0, "suppressed": 3, "baseline": 4}


def test_findings_are_listed_with_all_they_have() -> None:
    (finding,) = rendered(Report([FOUND], ["a.yaml"]))["diagnostics"]
    keys = "code name severity message path line column end_line end_column platform stage_id help url fix"
    assert list(finding) == keys.split()
    assert finding["fix"] == {
        "title": "rename it",
        "safe": False,
        "edits": [{"path": "a.yaml", "line": 1, "column": 2, "end_line": 1, "end_column": 5, "text": "max_num_seqs"}],
    }
