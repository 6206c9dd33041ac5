"""A report of findings as test results in JUnit's XML, in the form that Jenkins and most other servers read.

https://github.com/jenkinsci/xunit-plugin (junit-10.xsd). What fails the report is a failed test; what does not passes,
and says what it is in its output.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from omnicfg.diagnostics import Diagnostic
from omnicfg.findings.review import Report
from omnicfg.report.findings import told
from omnicfg.report.terminal import one_line

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


def render(report: Report, colour: bool = False, width: int | None = None) -> str:
    """A suite for each profile, and for each other file with a finding; a test for each finding, or one that passes."""
    from xml.etree.ElementTree import Element, indent, tostring

    found: dict[str, list[Diagnostic]] = {profile: [] for profile in report.profiles}
    for finding in report.findings:
        found.setdefault(finding.path, []).append(finding)
    root = Element("testsuites", _counts("omnicfg", report, list(found.values())))
    for path, findings in sorted(found.items()):
        root.append(_suite(one_line(path) or "omnicfg", findings, report))
    indent(root)
    return f"<?xml version='1.0' encoding='UTF-8'?>\n{tostring(root, encoding='unicode')}\n"


def _counts(name: str, report: Report, groups: Sequence[Sequence[Diagnostic]]) -> dict[str, str]:
    tests = sum(max(len(findings), 1) for findings in groups)
    failures = sum(report.fails(finding) for findings in groups for finding in findings)
    return {"name": name, "tests": str(tests), "failures": str(failures), "errors": "0"}


def _suite(path: str, findings: Sequence[Diagnostic], report: Report) -> Element:
    from xml.etree.ElementTree import Element, SubElement

    suite = Element("testsuite", _counts(path, report, [findings]))
    for finding in findings:
        test = SubElement(suite, "testcase", {"name": _name(finding), "classname": path})
        if report.fails(finding):
            kind = f"{finding.code} {finding.name}"
            message = told(finding).partition("\n")[0]
            SubElement(test, "failure", {"type": kind, "message": message}).text = _body(path, finding)
        else:
            SubElement(test, "system-out").text = _body(path, finding)
    if not findings:
        SubElement(suite, "testcase", {"name": "no findings", "classname": path})
    return suite


def _name(finding: Diagnostic) -> str:
    place = f" at {finding.line}:{finding.column}" if finding.line else ""
    stage = f" of stage {finding.stage_id}" if finding.stage_id is not None else ""
    return f"{finding.code} {finding.name}{place}{stage}"


def _body(path: str, finding: Diagnostic) -> str:
    place = f"{path}:{finding.line}:{finding.column}: " if finding.line else ""
    return f"{place}{finding.severity}: {told(finding)}\n{finding.url}"
