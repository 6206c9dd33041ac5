"""The workflows of this repository: of a form that GitHub takes, with no more rights than they need, and honest.

https://docs.github.com/en/actions/reference/security/secure-use
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.ci.conftest import parsed
from tests.docs.examples import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
MAKE = (ROOT / "Makefile").read_text(encoding="utf-8")


def workflow(path: Path) -> dict[str, Any]:
    read: dict[str, Any] = parsed(path.read_text(encoding="utf-8"))
    return read


def steps(path: Path) -> list[dict[str, Any]]:
    return [step for job in workflow(path)["jobs"].values() for step in job["steps"]]


def test_there_are_workflows() -> None:
    assert {path.stem for path in WORKFLOWS} == {"audit", "ci", "currency"}


@pytest.mark.slow
def test_they_are_what_github_takes() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows"]
    done = subprocess.run([*command, *map(str, WORKFLOWS)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_by_default_they_may_only_read(path: Path) -> None:
    assert workflow(path)["permissions"] == {"contents": "read"}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_each_job_ends_by_itself(path: Path) -> None:
    assert [name for name, job in workflow(path)["jobs"].items() if "timeout-minutes" not in job] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_nothing_from_outside_is_written_into_a_script(path: Path) -> None:
    assert [step["run"] for step in steps(path) if "${{" in step.get("run", "")] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_checkouts_leave_no_credentials_behind(path: Path) -> None:
    checkouts = [step for step in steps(path) if step.get("uses", "").startswith("actions/checkout@")]
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_what_they_make_can_be_made(path: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", MAKE, flags=re.M))
    for step in steps(path):
        for words in re.findall(r"^\s*make (.+)$", step.get("run", ""), flags=re.M):
            assert {word for word in words.split() if "=" not in word} <= targets


def test_the_matrix_is_the_one_that_the_package_declares() -> None:
    matrix = workflow(ROOT / ".github" / "workflows" / "ci.yml")["jobs"]["compiler"]["strategy"]["matrix"]["python"]
    declared = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', (ROOT / "pyproject.toml").read_text())
    (of_make,) = re.findall(r"^MATRIX \?= (.+)$", MAKE, flags=re.M)
    assert matrix == declared == of_make.split()
