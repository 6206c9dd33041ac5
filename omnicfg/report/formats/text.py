"""A report of findings for people."""

from __future__ import annotations

from omnicfg.findings.review import Report
from omnicfg.report.terminal import paragraph
from omnicfg.report.text import render_diagnostics, render_summary


def render(report: Report, colour: bool = False, width: int | None = None) -> str:
    """Each finding with its excerpt, and a last line that counts them."""
    told = render_diagnostics(report.findings, colour=colour, width=width)
    return told + paragraph(render_summary(report).removesuffix("\n"), width)
