"""JSON output is strict JSON."""

from __future__ import annotations

import json

from omnicfg.diagnostics import Diagnostic, Severity
from omnicfg.report.json import dumps, render_report


def test_the_report_lists_findings_and_counts_them() -> None:
    found = Diagnostic("OC101", "unknown-key", Severity.WARNING, "x", "a.yaml", 1, 2, 1, 5, stage_id=0)
    report = json.loads(render_report([found], 2))
    assert report["summary"] == {"profiles": 2, "error": 0, "warning": 1, "note": 0}
    keys = "code name severity message path line column end_line end_column platform stage_id help url"
    assert list(report["diagnostics"][0]) == keys.split()


def test_numbers_that_json_lacks_are_written_as_yaml_spells_them() -> None:
    text = dumps({"a": float("inf"), "b": [float("-inf"), float("nan")], "c": "名"})
    assert json.loads(text, parse_constant=lambda name: 1 / 0) == {"a": ".inf", "b": ["-.inf", ".nan"], "c": "名"}
