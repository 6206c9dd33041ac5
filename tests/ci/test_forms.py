"""The files that CI services read are what those services take, by the schemas of SchemaStore."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.ci.conftest import documented, parsed
from tests.docs.examples import ROOT


@pytest.mark.parametrize(
    ("schema", "title"),
    [
        ("vendor.github-actions", None),
        ("vendor.github-workflows", ".github/workflows/omnicfg.yml"),
        ("vendor.gitlab-ci", ".gitlab-ci.yml"),
    ],
)
def test_it_is_valid(schema: str, title: str | None, tmp_path: Path) -> None:
    path = ROOT / "action.yml"
    if title is not None:
        path = tmp_path / "file.yml"
        path.write_text(documented(title))
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_hooks_are_what_pre_commit_takes() -> None:
    command = [sys.executable, "-m", "pre_commit", "validate-manifest", str(ROOT / ".pre-commit-hooks.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_page_lists_the_inputs_of_the_action() -> None:
    action = parsed((ROOT / "action.yml").read_text())
    page = (ROOT / "docs" / "ci.md").read_text()
    table = [line.split("`")[1] for line in page.splitlines() if line.startswith("| `")]
    assert table == list(action["inputs"])
    used = parsed(documented(".github/workflows/omnicfg.yml"))["jobs"]["profiles"]["steps"][1]["with"]
    assert set(used) <= set(action["inputs"])


def test_nothing_a_user_gives_is_written_into_a_script() -> None:
    """Inputs come as environment variables; an expression inside a script would run whatever it holds."""
    steps = parsed((ROOT / "action.yml").read_text())["runs"]["steps"]
    steps += parsed(documented(".github/workflows/omnicfg.yml"))["jobs"]["profiles"]["steps"]
    assert [step["name"] for step in steps if "${{" in step.get("run", "")] == []


def test_the_documented_hooks_exist() -> None:
    hooks = {hook["id"] for hook in parsed((ROOT / ".pre-commit-hooks.yaml").read_text())}
    (repo,) = parsed(documented(".pre-commit-config.yaml"))["repos"]
    assert {hook["id"] for hook in repo["hooks"]} <= hooks
