"""A report of findings as JSON (``schemas/diagnostics.schema.json``)."""

from __future__ import annotations

from omnicfg.diagnostics import summarize
from omnicfg.findings.review import Report
from omnicfg.report.json import dumps


def render(report: Report, colour: bool = False, width: int | None = None) -> str:
    """``{"diagnostics": [...], "summary": {"profiles": 3, "error": 2, "warning": 1, "note": 0, ...}}``."""
    return dumps(
        {
            "diagnostics": [finding.to_dict() for finding in report.findings],
            "summary": {
                "profiles": len(report.profiles),
                **summarize(report.findings),
                "suppressed": report.suppressed,
                "baseline": report.baselined,
            },
        }
    )
