"""A report of findings as JUnit's XML."""

from __future__ import annotations

from pathlib import Path
from xml.etree.ElementTree import Element, fromstring

import xmlschema

from omnicfg.diagnostics import Diagnostic, Severity
from omnicfg.findings.review import Report
from omnicfg.report.formats.junit import render
from omnicfg.rule import rule_modules, rule_of
from tests.report.formats.conftest import ReportOf

SCHEMA = xmlschema.XMLSchema(str(Path(__file__).parents[2] / "data/reports/junit-10.xsd"))
ERROR = Diagnostic("OC101", "unknown-key", Severity.ERROR, "no `x`", "a.yaml", 3, 5, 3, 6, "npu", 0, "Remove it.")
NOTE = Diagnostic("OC104", "dead-key", Severity.NOTE, "nothing reads it", "b.yaml", 1, 1, 1, 2)


def rendered(report: Report) -> Element:
    text = render(report)
    SCHEMA.validate(text)
    return fromstring(text.encode())


def test_the_report_on_every_rules_example_is_valid(report_on: ReportOf) -> None:
    files = {f"{rule_of(module).code}.yaml": rule_of(module).bad for module in rule_modules()}
    root = rendered(report_on(files | {"base.yaml": "pipeline: qwen3_tts\n"}, fail_on="warning"))
    assert len(root) == len(files) + 1


def test_a_profile_without_findings_passes() -> None:
    root = rendered(Report([], ["a.yaml"]))
    assert root.attrib == {"name": "omnicfg", "tests": "1", "failures": "0", "errors": "0"}
    (suite,) = root
    assert suite.attrib == {"name": "a.yaml", "tests": "1", "failures": "0", "errors": "0"}
    assert [(test.attrib, len(test)) for test in suite] == [({"name": "no findings", "classname": "a.yaml"}, 0)]


def test_a_shipped_profile_has_one_suite() -> None:
    from omnicfg.check import check
    from omnicfg.findings.review import report_of
    from omnicfg.findings.settings import Settings

    checked = check("minicpmo-4_5-turn-mrv2", ["cuda"])
    (suite,) = rendered(report_of(checked, Settings(), None, Severity.ERROR))
    assert suite.attrib["name"] == "minicpmo_4_5_turn_mrv2.yaml"


def test_no_profiles_are_no_tests() -> None:
    assert rendered(Report([], [])).attrib["tests"] == "0"


def test_a_finding_that_fails_the_report_is_a_failed_test() -> None:
    (suite,) = rendered(Report([ERROR], ["a.yaml"]))
    (test,) = suite
    assert test.attrib == {"name": "OC101 unknown-key at 3:5 of stage 0", "classname": "a.yaml"}
    (failure,) = test
    assert failure.attrib == {"type": "OC101 unknown-key", "message": "no `x` (on npu)"}
    assert failure.text == f"a.yaml:3:5: error: no `x` (on npu)\nRemove it.\n{ERROR.url}"


def test_one_that_does_not_passes_and_is_told() -> None:
    root = rendered(Report([ERROR, NOTE], ["a.yaml"]))
    assert (root.attrib["tests"], root.attrib["failures"]) == ("2", "1")
    (test,) = root[1]
    assert [child.tag for child in test] == ["system-out"]
    assert "nothing reads it" in (test[0].text or "")


def test_what_is_a_failure_is_what_makes_the_exit_code() -> None:
    warning = Diagnostic("OC103", "quoted-scalar", Severity.WARNING, "x", "a.yaml", 1, 1, 1, 2)
    for fail_on, failures in ((Severity.ERROR, "0"), (Severity.WARNING, "1")):
        report = Report([warning], ["a.yaml"], fail_on)
        assert rendered(report).attrib["failures"] == failures == str(report.exit_code)


def test_what_xml_cannot_hold_is_escaped() -> None:
    found = Diagnostic("OC101", "unknown-key", Severity.ERROR, "<&]]>\x00\x0b\ufffe\"'", "a<b\x01.yaml", 1, 1, 1, 2)
    (suite,) = rendered(Report([found], []))
    assert suite.attrib["name"] == "a<b\\x01.yaml"
    assert suite[0][0].attrib["message"] == "<&]]>\\x00\\x0b\\ufffe\"'"
