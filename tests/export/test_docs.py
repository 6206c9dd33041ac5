"""The reference pages: current, complete, and true to what the tool does."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import pytest

from omnicfg.command_line.findings import KINDS
from omnicfg.diagnostics import RULES_URL, Diagnostic, Severity
from omnicfg.export.docs import main, renewed
from omnicfg.export.docs_map import PACKAGE
from omnicfg.export.docs_output import output_of, table
from omnicfg.export.docs_reference import record_fields
from omnicfg.export.refusal_examples import EXAMPLES
from omnicfg.refusals import REFUSALS
from omnicfg.rule import rule_modules, rule_of

DOCS = Path(__file__).parents[2] / "docs"


def test_the_committed_pages_are_what_the_exporter_writes() -> None:
    assert main(["--out", str(DOCS), "--check"]) == 0


def test_missing_stale_and_left_over_pages_are_found_and_put_right(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    docs = tmp_path / "docs"
    shutil.copytree(DOCS, docs)
    assert main(["--out", str(docs)]) == 0
    (docs / "cli.md").write_text("# Something else\n")
    (docs / "rules/OC101.md").unlink()
    (docs / "rules/OC999.md").write_text("# A rule that is gone\n")
    capsys.readouterr()

    assert main(["--out", str(docs), "--check"]) == 1
    told = [line.partition(" is stale")[0] for line in capsys.readouterr().err.splitlines()]
    assert sorted(told) == [str(docs / name) for name in ("cli.md", "rules/OC101.md", "rules/OC999.md")]

    assert main(["--out", str(docs)]) == 0
    assert main(["--out", str(docs), "--check"]) == 0
    assert not (docs / "rules/OC999.md").exists()


def test_a_section_is_renewed_and_the_words_around_it_stay() -> None:
    text = "before\n<!-- begin generated: a -->\nold\n<!-- end generated -->\nafter\n"
    assert renewed(text, "a", "new \\1\n") == (
        "before\n<!-- begin generated: a -->\n\nnew \\1\n\n<!-- end generated -->\nafter\n"
    )
    with pytest.raises(ValueError, match="0 sections 'b'"):
        renewed(text, "b", "")


def test_every_diagnostic_leads_to_a_page() -> None:
    codes = [rule_of(module).code for module in rule_modules()] + [refusal.code for refusal in REFUSALS.values()]
    for code in codes:
        url = Diagnostic(code, "name", Severity.ERROR, "message").url
        assert (DOCS / "rules" / url.removeprefix(RULES_URL)).is_file()


@pytest.mark.parametrize("name", sorted(REFUSALS))
def test_the_example_of_a_refusal_is_refused_for_that_reason_alone(name: str) -> None:
    example = EXAMPLES[name]
    if example.command[0] == "validate":
        report = json.loads(output_of((*example.command, "--format", "json"), example.files()))
        assert {diagnostic["code"] for diagnostic in report["diagnostics"]} == {REFUSALS[name].code}
    else:
        assert output_of(example.command, example.files()).startswith(f"error[{REFUSALS[name].code}] {name}:")


def test_examples_stand_for_refusals_that_exist() -> None:
    assert set(EXAMPLES) == set(REFUSALS)


@pytest.mark.parametrize("code", [rule_of(module).code for module in rule_modules()])
def test_the_page_of_a_rule_shows_the_rule_at_work(code: str) -> None:
    shown = (DOCS / "rules" / f"{code}.md").read_text(encoding="utf-8").partition("```console")[2]
    assert f"[{code}]" in shown


@pytest.mark.parametrize("code", [kind.code for kind in KINDS.values()])
def test_the_page_of_a_command_line_shows_what_its_command_says_and_the_finding_alone(code: str) -> None:
    page = (DOCS / "rules" / f"{code}.md").read_text(encoding="utf-8")
    profile = page.partition("```yaml\n")[2].partition("```")[0]
    command, _, shown = page.partition("```text\n$ omnicfg ")[2].partition("\n```")[0].partition("\n")
    first, *rest = shown.splitlines()
    assert f"[{code}]" in first
    assert all(line.startswith(" ") for line in rest)
    assert f"{shown}\n" in output_of(shlex.split(command), {"profile.yaml": profile.encode()})


def test_every_field_of_a_record_is_on_its_page_with_what_it_means() -> None:
    schema = json.loads((DOCS.parent / "schemas/capability.schema.json").read_text(encoding="utf-8"))
    blocks = [schema, *(one for one in schema["$defs"].values() if "properties" in one)]
    rows = [line.strip("| ").split(" | ") for line in record_fields().splitlines() if line.startswith("| `")]
    assert {name for block in blocks for name in block["properties"]} <= {row[0].strip("`") for row in rows}
    assert [row for row in rows if row[-1].rstrip(" |") in ("", row[2])] == []


def test_the_page_of_the_command_line_names_every_command() -> None:
    from omnicfg.cli import command_names

    page = (DOCS / "cli.md").read_text(encoding="utf-8")
    assert [line for line in page.splitlines() if line.startswith("## ")] == [
        f"## omnicfg {name}" for name in command_names()
    ]


def test_the_map_names_every_module() -> None:
    page = (DOCS / "code-map.md").read_text(encoding="utf-8")
    for path in PACKAGE.rglob("*.py"):
        assert path.name == "__init__.py" or f"- `{path.name}`: " in page


def test_output_is_that_of_the_command_errors_included() -> None:
    assert output_of(("explain", "nowhere.yaml", "x"), {}).startswith("error: no profile `nowhere.yaml`")
    assert output_of(("validate", "p.yaml"), {"p.yaml": b"pipeline: qwen3_tts\nasync_chunk: false\n"}).endswith(
        " in 1 profile.\n"
    )


def test_a_bar_in_a_table_is_no_column() -> None:
    assert table(("a", "b"), [("x|y", "z")]) == "| a | b |\n| --- | --- |\n| x\\|y | z |\n"
