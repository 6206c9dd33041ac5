"""A report of findings as SARIF 2.1.0 (https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html).

GitHub's code scanning reads a part of it:
https://docs.github.com/code-security/code-scanning/integrating-with-code-scanning/sarif-support-for-code-scanning.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from omnicfg import __version__
from omnicfg.diagnostics import RULES_URL, Diagnostic, Edit, Fix, Severity
from omnicfg.findings.review import Report
from omnicfg.refusals import REFUSALS
from omnicfg.report.findings import Repository, told
from omnicfg.report.json import dumps
from omnicfg.report.terminal import one_line
from omnicfg.rule import Rule, rule_modules, rule_of
from omnicfg.tree import Mark

SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"
ABOUT: Final = "https://github.com/omnicfg/omnicfg"
FINGERPRINT: Final = "omnicfg/v1"
_PROBLEM: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "recommendation"}


def render(report: Report, colour: bool = False, width: int | None = None) -> str:
    """One run with every rule there is, and a result for each finding; URIs are relative to the repository's root."""
    rules = [*_refusals(), *(_rule(rule_of(module)) for module in rule_modules())]
    rules += _policies(report.findings, {rule["id"] for rule in rules})
    numbers = {rule["id"]: number for number, rule in enumerate(rules)}
    repository = Repository()
    driver = {
        "name": "omnicfg",
        "version": __version__,
        "semanticVersion": __version__,
        "informationUri": ABOUT,
        "rules": rules,
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": True}],
        "results": [_result(finding, numbers[finding.code], repository) for finding in report.findings],
    }
    return dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


# ------------------------------------------------------------------------------------------------------------- rules
def _rule(rule: Rule) -> dict[str, Any]:
    example = f"Bad:\n\n```yaml\n{rule.bad}```\n\nGood:\n\n```yaml\n{rule.good}```\n"
    markdown = f"{rule.what}\n\n{rule.why}\n\n{example}"
    return _descriptor(rule.code, rule.name, rule.what, f"{rule.what} {rule.why}", markdown, rule.severity)


def _refusals() -> list[dict[str, Any]]:
    return [
        _descriptor(refusal.code, name, refusal.what, refusal.what, refusal.what, Severity.ERROR)
        for name, refusal in REFUSALS.items()
    ]


def _policies(findings: Iterable[Diagnostic], known: set[str]) -> list[dict[str, Any]]:
    """A team's own: what is known of one is its name and the severity of what it found."""
    own = {finding.code: finding for finding in findings if finding.code not in known}
    return [
        _descriptor(code, each.name, "A policy of this repository.", "", "", each.severity) | {"helpUri": each.url}
        for code, each in sorted(own.items())
    ]


def _descriptor(code: str, name: str, what: str, help: str, markdown: str, severity: Severity) -> dict[str, Any]:
    return {
        "id": code,
        "name": name,
        "shortDescription": {"text": name.replace("-", " ")},
        "fullDescription": {"text": what},
        "help": {"text": help or what, "markdown": markdown or what},
        "helpUri": f"{RULES_URL}{code}.md",
        "defaultConfiguration": {"level": severity.value},
        "properties": {"tags": ["deploy-profile"], "precision": "high", "problem.severity": _PROBLEM[severity]},
    }


# ----------------------------------------------------------------------------------------------------------- results
def _result(finding: Diagnostic, number: int, repository: Repository) -> dict[str, Any]:
    result = {
        "ruleId": finding.code,
        "ruleIndex": number,
        "level": finding.severity.value,
        "message": {"text": told(finding)},
        "locations": [_location(finding, repository)],
        "partialFingerprints": {FINGERPRINT: repository.fingerprint(finding)},
        "properties": {
            "platforms": finding.platform.split(",") if finding.platform else None,
            "stage_id": finding.stage_id,
        },
    }
    return result | ({"fixes": [_fix(finding.fix, repository)]} if finding.fix else {})


def _location(finding: Diagnostic, repository: Repository) -> dict[str, Any]:
    if not finding.path or finding.path.startswith("--"):
        return {"logicalLocations": [{"fullyQualifiedName": one_line(finding.path) or "omnicfg", "kind": "parameter"}]}
    mark = Mark(finding.path, finding.line, finding.column, finding.end_line, finding.end_column)
    return {"physicalLocation": {"artifactLocation": _artifact(mark.file, repository), "region": _region(mark)}}


def _artifact(name: str, repository: Repository) -> dict[str, str]:
    """A file by its path from the root; one outside of it, and none of the shipped, by an URI of its own."""
    path = repository.path(name)
    if path is None:
        return {"uri": Path(name).absolute().as_uri()}
    return {"uri": quote(path, errors="surrogateescape"), "uriBaseId": "%SRCROOT%"}


def _region(mark: Mark) -> dict[str, int]:
    """Lines and columns from 1, the end exclusive. What has no place stands at the beginning of its file."""
    region = {"startLine": max(mark.line, 1), "startColumn": max(mark.column, 1)}
    if (mark.end_line, mark.end_column) >= (mark.line, mark.column) and mark.end_column:
        region |= {"endLine": mark.end_line, "endColumn": mark.end_column}
    return region


def _fix(fix: Fix, repository: Repository) -> dict[str, Any]:
    edits: dict[str, list[Edit]] = {}
    for edit in fix.edits:
        edits.setdefault(edit.mark.file, []).append(edit)
    changes = [
        {
            "artifactLocation": _artifact(file, repository),
            "replacements": [
                {"deletedRegion": _region(edit.mark), "insertedContent": {"text": edit.text}} for edit in of_file
            ],
        }
        for file, of_file in edits.items()
    ]
    return {"description": {"text": fix.title}, "artifactChanges": changes, "properties": {"safe": fix.safe}}
