"""Diagnostics as text: the excerpt, the carets under the right characters, and nothing that must not be shown."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from omnicfg.diagnostics import Diagnostic, Edit, Fix, Severity
from omnicfg.errors import OmnicfgError, UsageError
from omnicfg.findings.review import Report
from omnicfg.report.text import render_diagnostics, render_errors, render_summary
from omnicfg.tree import Mark
from tests.conftest import WriteProfile
from tests.patience import in_cpu_s

MESSAGE = "unknown key `max_num_seq` in stage 0"


def finding(path: Path | str, line: int, column: int, end: int) -> Diagnostic:
    return Diagnostic("OC101", "unknown-key", Severity.ERROR, MESSAGE, str(path), line, column, line, end)


def excerpt(diagnostic: Diagnostic) -> list[str]:
    """The source line and the line with the carets, without the gutter."""
    lines = render_diagnostics([diagnostic]).splitlines()
    return [line.partition("|")[2][1:] for line in lines[3:5]]


def test_a_finding_is_shown_as_rustc_and_ruff_do(profile_file: WriteProfile) -> None:
    path = profile_file("pipeline: x\nstages:\n  - stage_id: 0\n    max_num_seq: 8\n")
    found = replace(finding(path, 4, 5, 16), platform="npu", help="Did you mean `max_num_seqs`?")
    assert render_diagnostics([found]) == (
        "error[OC101] unknown-key: unknown key `max_num_seq` in stage 0\n"
        f"  --> {path}:4:5\n"
        "   |\n"
        " 4 |     max_num_seq: 8\n"
        "   |     ^^^^^^^^^^^\n"
        "   = platform: npu\n"
        "   = help: Did you mean `max_num_seqs`?\n"
        "\n"
    )


def test_the_gutter_grows_with_the_line_number(profile_file: WriteProfile) -> None:
    path = profile_file("# x\n" * 99 + "key: 1\n")
    lines = render_diagnostics([finding(path, 100, 1, 4)]).splitlines()
    assert lines[1:5] == [f"    --> {path}:100:1", "     |", " 100 | key: 1", "     | ^^^"]


@pytest.mark.parametrize(
    ("line", "column", "end", "shown", "carets"),
    [
        pytest.param("key: \tvalue", 7, 12, "key:     value", "         ^^^^^", id="a tab takes four columns"),
        pytest.param("名: 値", 1, 2, "名: 値", "^^", id="a wide character takes two"),
        pytest.param("名: 値", 4, 5, "名: 値", "    ^^", id="after a wide character"),
        pytest.param("e\u0301: x", 5, 6, "e\u0301: x", "   ^", id="a combining mark takes none"),
        pytest.param("key: value", 6, 6, "key: value", "     ^", id="an empty span marks one character"),
        pytest.param("key:", 5, 5, "key:", "    ^", id="past the end of the line"),
    ],
)
def test_carets_stand_under_what_is_meant(
    profile_file: WriteProfile, line: str, column: int, end: int, shown: str, carets: str
) -> None:
    assert excerpt(finding(profile_file(line + "\n"), 1, column, end)) == [shown, carets]


def test_of_a_block_over_several_lines_the_first_is_marked_to_its_end(profile_file: WriteProfile) -> None:
    path = profile_file("stages:\n  - a: 1\n    b: 2\n")
    block = Diagnostic("OC011", "x", Severity.ERROR, "x", str(path), 2, 5, 4, 1)
    assert excerpt(block) == ["  - a: 1", "    ^^^^"]


def test_a_long_line_is_cut_around_the_marked_part(profile_file: WriteProfile) -> None:
    path = profile_file("x: [" + "0, " * 500 + "wrong, " + "0, " * 500 + "]\n")
    shown, carets = excerpt(finding(path, 1, 1505, 1510))
    assert len(shown) <= 160
    assert shown[carets.index("^") : carets.rindex("^") + 1] == "wrong"
    assert shown[0] == shown[-1] == "…"


def test_on_a_terminal_text_wraps_and_the_excerpt_fits() -> None:
    found = Diagnostic("OC000", "usage", Severity.ERROR, "word " * 30, help="more words " * 20)
    assert max(len(line) for line in render_diagnostics([found], width=60).splitlines()) <= 60


@pytest.mark.parametrize("file", ["--set stages.0.devices=x", "vllm_omni/config/stage_config.py", "gone.yaml", "/dev"])
def test_what_is_no_file_of_the_user_has_no_excerpt(file: str) -> None:
    assert "|" not in render_diagnostics([finding(file, 1, 1, 2)])


def test_a_shipped_profile_is_found_by_its_name() -> None:
    assert "base_config: minicpmo_4_5.yaml" in render_diagnostics([finding("minicpmo_4_5_turn.yaml", 3, 1, 2)])


def test_a_finding_without_a_place_is_its_message_and_help() -> None:
    error = UsageError("no profile `x`", "Did you mean `y`?")
    assert render_errors(error) == "error: no profile `x`\n  = help: Did you mean `y`?\n"


def test_colour_only_adds_styles(profile_file: WriteProfile) -> None:
    found = finding(profile_file("max_num_seq: 8\n"), 1, 1, 12)
    coloured = render_diagnostics([found], colour=True)
    assert "\x1b[1;31merror[OC101] unknown-key\x1b[0m" in coloured
    assert "\x1b" not in render_diagnostics([found])


def test_what_a_terminal_would_act_on_is_shown_as_an_escape(profile_file: WriteProfile) -> None:
    path = profile_file("key: \x9b31mred\n")
    found = replace(finding(path, 1, 1, 4), message="unknown key `\x1b[31mred\u202e`")
    text = render_diagnostics([found])
    assert "`\\x1b[31mred\\u202e`" in text
    assert "key: \\x9b31mred" in text


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("hf_token: hf_abc\n", 1),
        ("env: {HF_TOKEN: hf_abc, OTHER: 1}\n", 1),
        ("env:\n  API_KEY: 'hf_abc'\n", 2),
        ("env:\n  API_KEY:\n    hf_abc\n", 3),
        ("password: |\n  hf_abc\n", 2),
        ("  - password: one, two hf_abc # note\n", 1),
        ("auth: {secret: [1, hf_abc]}\n", 1),
        ("x: {a: 1, token: 'it''s hf_abc', b: 2}\n", 1),
        ('secret: "unclosed hf_abc\n', 1),
        ("url: redis://user:hf_abc@host/0\n", 1),
    ],
)
def test_a_credential_is_never_shown(profile_file: WriteProfile, text: str, line: int) -> None:
    rendered = render_diagnostics([finding(profile_file(text), line, 1, 4)])
    assert "hf_abc" not in rendered
    assert "***" in rendered


def test_the_carets_of_a_hidden_value_mark_what_stands_for_it(profile_file: WriteProfile) -> None:
    path = profile_file("a: 1\nhf_token: hf_abcdef\n")
    assert excerpt(finding(path, 2, 11, 20)) == ["hf_token: ***", "          ^^^"]


def test_the_summary_counts_what_there_is() -> None:
    error, note = (Diagnostic("x", "x", severity, "x") for severity in (Severity.ERROR, Severity.NOTE))
    assert render_summary(Report([error, error, note], ["a"])) == "2 errors, 1 note in 1 profile.\n"
    assert render_summary(Report([], ["a", "b", "c"])) == "No findings in 3 profiles.\n"


def test_a_summary_counts_what_can_be_fixed_in_the_files_that_are_named() -> None:
    places = [("a", True), ("b", True), ("a", False)]
    fixes = [Fix("t", (Edit(Mark(file, 1, 1, 1, 2), "x"),), safe) for file, safe in places]
    findings = [Diagnostic("OC101", "n", Severity.ERROR, "m", "a", fix=fix) for fix in fixes]
    assert render_summary(Report(findings, ["a"])) == "3 errors in 1 profile; 1 can be fixed with `--fix`.\n"
    assert render_summary(Report([], [])) == "No profiles found: no YAML file there looks like one.\n"


def test_the_summary_counts_what_is_left_out() -> None:
    report = Report([], ["a"], suppressed=1, baselined=12)
    assert render_summary(report) == "No findings in 1 profile; 1 suppressed; 12 in the baseline.\n"


def test_a_line_break_in_the_name_of_a_file_begins_no_line() -> None:
    found = Diagnostic("OC101", "unknown-key", Severity.ERROR, "no", path="a\n::error::b.yaml")
    assert " --> a\\n::error::b.yaml\n" in render_diagnostics([found])


def test_a_line_break_in_what_a_file_says_begins_no_line() -> None:
    found = Diagnostic("OC101", "unknown-key", Severity.ERROR, "no `a\n::error::b`", help="Not `a\n::error::b`.")
    assert render_diagnostics([found]) == (
        "error[OC101] unknown-key: no `a\\n::error::b`\n  = help: Not `a\\n::error::b`.\n\n"
    )


def test_every_diagnostic_of_an_error_is_shown() -> None:
    error = OmnicfgError([Diagnostic(code, code, Severity.ERROR, "x") for code in ("OC001", "OC002")])
    assert render_errors(error).count("error[") == 2


def test_a_long_line_with_thousands_of_findings_takes_no_time(profile_file: WriteProfile) -> None:
    keys = ", ".join(f"k{number}: 1" for number in range(2000))
    path = profile_file("{" + keys + "}\n")
    found = [finding(path, 1, column, column + 2) for column in range(2, 20000, 10)]
    assert "k1000: 1" in in_cpu_s(3, lambda: render_diagnostics(found))
