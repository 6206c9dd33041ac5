"""Errors, diagnostics and refusals: what is wrong, where, why, and what to do."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import omnicfg
from omnicfg.diagnostics import MAX_MESSAGE, Diagnostic, Severity, summarize
from omnicfg.errors import OmnicfgError, ResolveError, ServeError, UsageError
from omnicfg.refusals import REFUSALS, refusal, refuse
from omnicfg.tree import Mark

PACKAGE = Path(omnicfg.__file__).parent
FOUND = Diagnostic("OC101", "unknown-key", Severity.ERROR, "unknown key `a`", "x.yaml", 3, 5, 3, 6, help="Remove it.")


def test_a_diagnostic_at_a_mark() -> None:
    found = Diagnostic.at(
        Mark("x.yaml", 3, 5, 3, 6), "OC101", "unknown-key", Severity.ERROR, "unknown key `a`", help="Remove it."
    )
    assert found == FOUND


def test_a_diagnostic_without_a_mark_has_no_place() -> None:
    found = Diagnostic.at(None, "OC000", "usage", Severity.ERROR, "no")
    assert (found.path, found.line, found.column) == ("", 0, 0)


def test_a_message_that_quotes_a_huge_value_is_cut() -> None:
    found = Diagnostic.at(None, "OC000", "usage", Severity.ERROR, "begin " + "x" * 100_000 + " end")
    assert len(found.message) < MAX_MESSAGE + 10
    assert found.message.startswith("begin x")
    assert found.message.endswith("x end")


def test_the_json_form_in_the_order_of_its_fields() -> None:
    assert json.dumps(FOUND.to_dict()) == (
        '{"code": "OC101", "name": "unknown-key", "severity": "error", "message": "unknown key `a`", "path": "x.yaml", '
        '"line": 3, "column": 5, "end_line": 3, "end_column": 6, "platform": null, "stage_id": null, '
        '"help": "Remove it.", "url": "https://github.com/omnicfg/omnicfg/blob/main/docs/rules/OC101.md", "fix": null}'
    )


def test_diagnostics_are_sorted_by_place_then_by_severity() -> None:
    later = replace(FOUND, line=4)
    note = replace(FOUND, severity=Severity.NOTE, code="OC001")
    other_file = replace(FOUND, path="a.yaml", line=9)
    other_stage = replace(FOUND, stage_id=0)
    other_help = replace(FOUND, help="Or not.")
    expected = [other_file, other_help, FOUND, other_stage, note, later]
    assert sorted([later, note, other_stage, FOUND, other_help, other_file], key=lambda one: one.sort_key) == expected


def test_severities_from_the_worst() -> None:
    assert sorted(Severity, key=lambda severity: severity.rank) == [Severity.ERROR, Severity.WARNING, Severity.NOTE]


def test_a_summary_counts_every_severity() -> None:
    assert summarize([FOUND, FOUND, replace(FOUND, severity=Severity.NOTE)]) == {"error": 2, "warning": 0, "note": 1}
    assert summarize([]) == {"error": 0, "warning": 0, "note": 0}


# -------------------------------------------------------------------------------------------------------- errors
def test_an_error_shows_each_of_its_diagnostics_on_a_line() -> None:
    error = ResolveError([FOUND, Diagnostic("OC000", "usage", Severity.ERROR, "no")])
    assert str(error) == "x.yaml:3:5: OC101 unknown key `a`\nOC000 no"
    assert error.diagnostics[0] is FOUND


def test_errors_are_of_one_family() -> None:
    for error in (ResolveError([FOUND]), UsageError("no", "Do this."), ServeError("no")):
        assert isinstance(error, OmnicfgError)
    assert isinstance(ServeError("no"), UsageError)
    assert UsageError("no", "Do this.").diagnostics == (
        Diagnostic("OC000", "usage", Severity.ERROR, "no", help="Do this."),
    )
    assert ServeError("no").diagnostics[0].name == "serve"


# ------------------------------------------------------------------------------------------------------- refusals
def test_a_refusal_stops_with_one_documented_diagnostic() -> None:
    with pytest.raises(ResolveError) as refused:
        refuse("bad-value", Mark("x.yaml", 1, 2), "no", "Do this.", stage_id=1, platform="npu")
    assert refused.value.diagnostics == (
        Diagnostic(
            "OC021", "bad-value", Severity.ERROR, "no", "x.yaml", 1, 2, platform="npu", stage_id=1, help="Do this."
        ),
    )  # fmt: skip


def test_a_refusal_that_is_not_documented_is_a_bug() -> None:
    with pytest.raises(KeyError):
        refusal("no-such-reason", None, "no")


def test_every_refusal_has_a_code_and_a_sentence() -> None:
    codes = [one.code for one in REFUSALS.values()]
    assert codes == [f"OC{number:03}" for number in range(1, len(codes) + 1)]
    assert all(re.fullmatch(r"[A-Z`].*\.", one.what) for one in REFUSALS.values())


# ------------------------------------------------------------------------------------------------- what to do
HELP_AT = {"UsageError": 1, "ServeError": 1, "problem": 1, "Check": 2}


def helps() -> Iterator[tuple[str, str]]:
    """Where the package says what to do, and how that begins."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = call.func.id if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) else ""
            if isinstance(call, ast.Call) and name in HELP_AT and (name != "problem" or "serve" in path.parts):
                for said in call.args[HELP_AT[name] :][:1]:
                    first = said.values[0] if isinstance(said, ast.JoinedStr) else said
                    if isinstance(first, ast.Constant) and isinstance(first.value, str):
                        yield f"{path.relative_to(PACKAGE)}:{call.lineno}", first.value


def test_what_to_do_is_said_in_sentences() -> None:
    found = dict(helps())
    assert len(found) > 100
    assert [where for where, text in found.items() if text[:1].islower()] == []
