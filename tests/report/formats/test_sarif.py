"""A report of findings as SARIF."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from omnicfg.diagnostics import Diagnostic, Edit, Fix, Severity
from omnicfg.findings.review import Report
from omnicfg.fixes.edits import Text
from omnicfg.refusals import REFUSALS
from omnicfg.report.formats.sarif import render
from omnicfg.rule import rule_modules, rule_of
from omnicfg.tree import Mark
from tests.report.formats.conftest import ReportOf

SCHEMA = json.loads((Path(__file__).parents[2] / "data/reports/sarif-schema-2.1.0.json").read_text(encoding="utf-8"))
TTS = "pipeline: qwen3_tts\nasync_chunk: false\n"


def run_of(report: Report) -> Any:
    log = json.loads(render(report))
    jsonschema.Draft7Validator(SCHEMA).validate(log)
    (run,) = log["runs"]
    return run


def results(report: Report) -> Any:
    return run_of(report)["results"]


def regions(value: Any) -> list[dict[str, int]]:
    """Every region, wherever it is."""
    found = []
    if isinstance(value, dict):
        found = [child for key, child in value.items() if key in ("region", "deletedRegion")]
        value = list(value.values())
    return found + [region for child in value for region in regions(child)] if isinstance(value, list) else found


def test_the_report_on_every_rules_example_is_valid(report_on: ReportOf) -> None:
    files = {f"{rule_of(module).code}.yaml": rule_of(module).bad for module in rule_modules()}
    report = report_on(files | {"base.yaml": "pipeline: qwen3_tts\n", "x.yaml": "a: [\n"})
    found = results(report)
    assert len(found) == len(report.findings) > len(files) / 2
    assert all(region["startLine"] >= 1 and region["startColumn"] >= 1 for region in regions(found))


def test_an_empty_report_is_valid() -> None:
    assert results(Report([], ["a.yaml"])) == []


def test_every_rule_and_refusal_is_described() -> None:
    rules = run_of(Report([], []))["tool"]["driver"]["rules"]
    codes = [rule["id"] for rule in rules]
    expected = {rule_of(module).code for module in rule_modules()} | {each.code for each in REFUSALS.values()}
    assert set(codes) == expected
    assert len(set(codes)) == len(codes)
    for rule in rules:
        assert rule["helpUri"].endswith(f"/docs/rules/{rule['id']}.md")
        assert rule["fullDescription"]["text"].endswith(".")
        assert rule["help"]["text"]
        assert rule["help"]["markdown"]
        assert rule["defaultConfiguration"]["level"] in {"error", "warning", "note"}


def test_a_result_points_to_its_rule_its_file_and_its_place(report_on: ReportOf) -> None:
    run = run_of(report_on({"my profiles/a.yaml": TTS + "platforms:\n  npu: {x: 1}\n"}, "my profiles"))
    (result,) = run["results"]
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "OC101"
    assert result["level"] == "error"
    assert result["message"]["text"].startswith("unknown key `x` in the npu block (on npu)")
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "my%20profiles/a.yaml", "uriBaseId": "%SRCROOT%"}
    assert place["region"] == {"startLine": 4, "startColumn": 9, "endLine": 4, "endColumn": 10}
    assert result["properties"] == {"platforms": ["npu"], "stage_id": None}


def test_a_severity_is_the_one_that_counts_here() -> None:
    found = Diagnostic("OC101", "unknown-key", Severity.NOTE, "x", "a.yaml", 1, 1, 1, 2)
    assert results(Report([found], []))[0]["level"] == "note"


@pytest.mark.parametrize("place", [(0, 0, 0, 0), (3, 0, 0, 0), (3, 0, 3, 0)])
def test_what_has_no_place_stands_at_the_beginning(place: tuple[int, int, int, int]) -> None:
    found = Diagnostic("OC001", "unreadable-file", Severity.ERROR, "x", "a.yaml", *place)
    region = results(Report([found], []))[0]["locations"][0]["physicalLocation"]["region"]
    assert region == {"startLine": max(place[0], 1), "startColumn": 1}


def test_a_file_outside_of_the_repository_has_an_uri_of_its_own(report_on: ReportOf, tmp_path: Path) -> None:
    report_on({"sub/a.yaml": ""})
    outside = tmp_path.parent / "out side.yaml"
    found = Diagnostic("OC001", "unreadable-file", Severity.ERROR, "x", str(outside))
    place = results(Report([found], []))[0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert place == {"uri": outside.as_uri()}


def test_a_finding_in_a_setting_of_the_command_line_names_it(report_on: ReportOf) -> None:
    report = report_on({"a.yaml": TTS}, overrides=("asynch_chunk=1",))
    (location,) = results(report)[0]["locations"]
    assert location == {"logicalLocations": [{"fullyQualifiedName": "--set asynch_chunk=1", "kind": "parameter"}]}


def test_a_policy_of_ones_own_is_a_rule_too() -> None:
    found = Diagnostic("TEAM-1", "no-big-batches", Severity.WARNING, "too big", "a.yaml", 1, 1, 1, 2)
    run = run_of(Report([found], []))
    rule = run["tool"]["driver"]["rules"][run["results"][0]["ruleIndex"]]
    assert (rule["id"], rule["name"], rule["helpUri"]) == ("TEAM-1", "no-big-batches", found.url)


# ------------------------------------------------------------------------------------------------------------- fixes
def test_a_fix_is_what_mends_the_file(report_on: ReportOf) -> None:
    text = TTS + "stages:\n  - {stage_id: 0, max_num_seq: 8}\n"
    (result,) = results(report_on({"a.yaml": text}))
    (fix,) = result["fixes"]
    (change,) = fix["artifactChanges"]
    (replacement,) = change["replacements"]
    assert change["artifactLocation"]["uri"] == "a.yaml"
    region = replacement["deletedRegion"]
    mark = Mark("a.yaml", region["startLine"], region["startColumn"], region["endLine"], region["endColumn"])
    start, end = Text(text).span(mark)
    assert text[:start] + replacement["insertedContent"]["text"] + text[end:] == text.replace("seq:", "seqs:")


def test_a_fix_says_whether_it_is_safe_and_may_insert_in_several_files() -> None:
    fix = Fix("Do it", (Edit(Mark("a.yaml", 2, 1, 2, 1), "x"), Edit(Mark("b.yaml", 1, 1, 1, 5), "")), safe=False)
    found = Diagnostic("OC101", "unknown-key", Severity.ERROR, "x", "a.yaml", 1, 1, 1, 2, fix=fix)
    (made,) = results(Report([found], []))[0]["fixes"]
    assert made["description"] == {"text": "Do it"}
    assert made["properties"] == {"safe": False}
    assert [change["artifactLocation"]["uri"] for change in made["artifactChanges"]] == ["a.yaml", "b.yaml"]
    insertion = made["artifactChanges"][0]["replacements"][0]["deletedRegion"]
    assert insertion == {"startLine": 2, "startColumn": 1, "endLine": 2, "endColumn": 1}


# ------------------------------------------------------------------------------------------------------ fingerprints
def prints(report: Report) -> list[str]:
    return [result["partialFingerprints"]["omnicfg/v1"] for result in results(report)]


def test_a_fingerprint_stays_where_lines_move(report_on: ReportOf) -> None:
    before = prints(report_on({"a.yaml": TTS + "x: 1\n"}))
    assert prints(report_on({"a.yaml": "# new\n\n" + TTS + "trust_remote_code: true\nx: 2\n"})) == before
    assert prints(report_on({"a.yaml": TTS + "y: 1\n"})) != before


def test_equal_findings_have_a_number_each() -> None:
    found = Diagnostic("OC101", "unknown-key", Severity.ERROR, "x", "a.yaml", 1, 1, 1, 2)
    first, second = prints(Report([found, found], []))
    assert first.removesuffix(":1") == second.removesuffix(":2")
