"""A report of findings as a GitLab Code Quality report (https://docs.gitlab.com/ci/testing/code_quality/)."""

from __future__ import annotations

from typing import Any, Final

from omnicfg.diagnostics import Diagnostic, Severity
from omnicfg.findings.review import Report
from omnicfg.report.findings import Repository, told
from omnicfg.report.json import dumps

_SEVERITIES: Final = {Severity.ERROR: "major", Severity.WARNING: "minor", Severity.NOTE: "info"}


def render(report: Report, colour: bool = False, width: int | None = None) -> str:
    """A list with an entry for each finding. What has no place in a file stands on the first line of its name."""
    repository = Repository()
    return dumps([_entry(finding, repository) for finding in report.findings])


def _entry(finding: Diagnostic, repository: Repository) -> dict[str, Any]:
    line = max(finding.line, 1)
    return {
        "description": told(finding),
        "check_name": f"{finding.code} {finding.name}",
        "fingerprint": repository.fingerprint(finding),
        "severity": _SEVERITIES[finding.severity],
        "location": {
            "path": repository.path(finding.path) or finding.path or ".",
            "lines": {"begin": line, "end": max(line, finding.end_line)},
        },
    }
