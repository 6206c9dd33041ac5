"""What holds for every rule: its page is true, its code is its own."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

import omnicfg
from omnicfg.diagnostics import Diagnostic, Severity
from omnicfg.refusals import REFUSALS
from omnicfg.rule import Rule, rule_modules, rule_of
from tests.conftest import WriteProfile

RULES = [pytest.param(module, id=f"{rule_of(module).code}-{rule_of(module).name}") for module in rule_modules()]


def _bad(rule: Rule, write: WriteProfile) -> list[Diagnostic]:
    write(rule.base, "base.yaml")
    return _checked(rule, write(rule.bad), rule.settings, write)


def _checked(rule: Rule, profile: Path, settings: tuple[str, ...], write: WriteProfile) -> list[Diagnostic]:
    model = write(rule.config, "config.json").parent if rule.config else None
    return omnicfg.validate(profile, engine=rule.engine, overrides=settings, model=model)


@pytest.mark.parametrize("module", RULES)
def test_the_bad_example_breaks_this_rule_and_no_other(profile_file: WriteProfile, module: ModuleType) -> None:
    rule = rule_of(module)
    found = _bad(rule, profile_file)
    own = [finding for finding in found if finding.code == rule.code]
    assert own
    assert {(finding.name, finding.severity) for finding in own} == {(rule.name, rule.severity)}
    assert [finding for finding in found if finding.code != rule.code and finding.severity is Severity.ERROR] == []


@pytest.mark.parametrize("module", RULES)
def test_the_bad_example_is_pointed_at(profile_file: WriteProfile, module: ModuleType) -> None:
    rule = rule_of(module)
    texts = {str(profile_file(rule.bad)): rule.bad, **{f"--set {text}": text for text in rule.settings}}
    for finding in _bad(rule, profile_file):
        lines = texts[finding.path].splitlines()
        assert 1 <= finding.line <= len(lines)
        assert 1 <= finding.column <= len(lines[finding.line - 1])
        assert (finding.end_line, finding.end_column) > (finding.line, finding.column)


@pytest.mark.parametrize("module", RULES)
def test_the_good_example_is_clean(profile_file: WriteProfile, module: ModuleType) -> None:
    rule = rule_of(module)
    profile_file(rule.base, "base.yaml")
    assert _checked(rule, profile_file(rule.good), rule.good_settings, profile_file) == []


@pytest.mark.parametrize("module", RULES)
def test_the_page_is_written(module: ModuleType) -> None:
    rule = rule_of(module)
    assert module.__doc__ is not None
    assert module.__doc__.startswith(f"{rule.code}: ")
    for sentence in (rule.what, rule.why):
        assert sentence.endswith(".")
    for example in (rule.bad, rule.good):
        assert example.startswith("pipeline: ")
        assert example.endswith("\n")


@pytest.mark.parametrize("module", RULES)
def test_the_page_names_every_severity_that_its_findings_may_have(module: ModuleType) -> None:
    rule = rule_of(module)
    given = set(re.findall(r"Severity\.([A-Z]+)", Path(str(module.__file__)).read_text(encoding="utf-8")))
    others = {name.lower() for name in given} - {rule.severity.value}
    assert [name for name in others if name not in re.findall(r"\w+", f"{rule.what} {rule.why}")] == []


@pytest.mark.parametrize("module", RULES)
def test_a_rule_looks_at_something(module: ModuleType) -> None:
    checks = [name for name in vars(module) if name.startswith("check_")]
    assert checks
    assert set(checks) <= {"check_document", "check_profile", "check_plan", "check_suppression"}


def test_codes_and_names_are_unique_and_stable() -> None:
    codes = [rule_of(module).code for module in rule_modules()] + [refusal.code for refusal in REFUSALS.values()]
    names = [rule_of(module).name for module in rule_modules()] + list(REFUSALS)
    assert len(set(codes)) == len(codes)
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"OC[0-9]{3}", code) for code in codes)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", name) for name in names)


def test_the_rules() -> None:
    assert {rule_of(module).code: rule_of(module).name for module in rule_modules()} == {
        "OC101": "unknown-key",
        "OC102": "wrong-type",
        "OC103": "quoted-scalar",
        "OC104": "dead-key",
        "OC105": "out-of-range",
        "OC106": "yaml-dialect",
        "OC107": "misplaced-key",
        "OC108": "misspelt-variable",
        "OC201": "unmatched-stage",
        "OC202": "unknown-platform",
        "OC203": "repeated-stage",
        "OC204": "padded-stage-id",
        "OC205": "empty-profile",
        "OC301": "shadowed-setting",
        "OC302": "inherited-platform-block",
        "OC303": "replaced-block",
        "OC304": "mixed-platform-entry",
        "OC305": "replaced-list",
        "OC306": "null-block",
        "OC307": "empty-over-base",
        "OC308": "overruled-by-topology",
        "OC309": "stage-async-chunk",
        "OC310": "override-of-all-stages",
        "OC311": "override-order",
        "OC312": "stage-over-profile",
        "OC313": "idle-duplex-session",
        "OC401": "undefined-connector",
        "OC402": "unreferenced-connector",
        "OC403": "session-mode-not-served",
        "OC404": "connector-class",
        "OC405": "connector-edge",
        "OC406": "edge-stages",
        "OC407": "platform-connectors",
        "OC501": "prefix-cache-capability",
        "OC502": "mode-capability",
        "OC503": "payload-rows",
        "OC504": "remote-connector",
        "OC505": "unserved-pipeline",
        "OC601": "device-memory",
        "OC602": "device-count",
        "OC603": "batch-size",
        "OC604": "prefix-cache-cost",
        "OC605": "prompt-budget",
        "OC701": "ignored-key",
        "OC702": "overruled-parallel-size",
        "OC703": "prefix-cache-combination",
        "OC704": "switched-off",
        "OC705": "parallel-combination",
        "OC706": "engine-arg-release",
        "OC707": "generation-prefix-cache",
        "OC708": "recurrent-prefix-cache",
        "OC709": "missing-partner",
        "OC710": "rival-settings",
        "OC801": "side-effect",
        "OC901": "malformed-suppression",
        "OC902": "unexplained-suppression",
        "OC903": "unknown-suppression",
        "OC904": "unused-suppression",
    }
