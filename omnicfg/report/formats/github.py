"""A report of findings as workflow commands, which GitHub Actions shows beside the lines of a pull request.

https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands. GitHub shows ten errors and ten
warnings of a step; the log has all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from omnicfg.diagnostics import Diagnostic, Severity
from omnicfg.findings.review import Report
from omnicfg.report.findings import Repository, told
from omnicfg.report.terminal import one_line

_COMMANDS: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def render(report: Report, colour: bool = False, width: int | None = None) -> str:
    """A line for each finding: ``::error file=a.yaml,line=3,title=OC101 unknown-key::what``."""
    repository = Repository()
    return "".join(f"{_command(finding, repository)}\n" for finding in report.findings)


def _command(finding: Diagnostic, repository: Repository) -> str:
    properties = ",".join(f"{name}={_property(str(value))}" for name, value in _properties(finding, repository))
    text = f"{_elsewhere(finding, repository)}{told(finding)}\n{finding.url}"
    return f"::{_COMMANDS[finding.severity]} {properties}::{_data(text)}"


def _elsewhere(finding: Diagnostic, repository: Repository) -> str:
    """The place of what has no file that GitHub could mark: one outside of the repository, or an option."""
    if not finding.path or repository.path(finding.path) is not None:
        return ""
    return f"{one_line(finding.path)}{f':{finding.line}:{finding.column}' if finding.line else ''}: "


def _properties(finding: Diagnostic, repository: Repository) -> Iterator[tuple[str, object]]:
    path = repository.path(finding.path)
    if path is not None:
        yield "file", path
    if path is not None and finding.line:
        yield "line", finding.line
        yield "endLine", max(finding.line, finding.end_line)
        if finding.column and finding.end_line == finding.line:  # columns of several lines are refused
            yield "col", finding.column
            yield "endColumn", finding.end_column
    yield "title", f"{finding.code} {finding.name}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
