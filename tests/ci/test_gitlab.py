"""The GitLab jobs of docs/ci.md, run as their runner would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ci.conftest import BROKEN, Script, documented, parsed
from tests.repositories import Repo

pytestmark = pytest.mark.slow

JOBS = parsed(documented(".gitlab-ci.yml"))


@pytest.fixture(scope="session")
def image(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A Python image in which `omnicfg` is the wheel of this checkout, whatever an index has under that name."""
    folder = tmp_path_factory.mktemp("image")
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    constraint = folder / "constraint.txt"
    constraint.write_text(f"omnicfg @ file://{wheel}\n")
    return {"PATH": f"{folder / 'venv' / 'bin'}:{os.environ['PATH']}", "PIP_CONSTRAINT": str(constraint)}


def test_validate_writes_the_report_that_the_job_declares(script: Script, repo: Repo, image: dict[str, str]) -> None:
    job = JOBS["omnicfg"]
    done = script("\n".join(job["script"]), image)
    assert done.returncode == 0, done.stderr
    repo.write(profiles__base=BROKEN)
    done = script("\n".join(job["script"]), image)
    assert done.returncode == 1, done.stderr
    report = json.loads((repo.root / job["artifacts"]["reports"]["codequality"]).read_text())
    found = {(each["check_name"], each["location"]["path"]) for each in report}
    assert ("OC101 unknown-key", "profiles/base.yaml") in found
    assert "error[OC101]" in done.stdout


def test_diff_leaves_the_markdown_that_the_job_exposes(script: Script, repo: Repo, image: dict[str, str]) -> None:
    job = JOBS["omnicfg-diff"]
    base = repo.git("rev-parse", "HEAD~1")
    done = script("\n".join(job["script"]), {**image, "CI_MERGE_REQUEST_DIFF_BASE_SHA": base})
    assert done.returncode == 0, done.stderr
    (path,) = job["artifacts"]["paths"]
    assert "| `profiles/derived.yaml` from `profiles/base.yaml` |" in (repo.root / path).read_text()
    wrong = script("\n".join(job["script"]), {**image, "CI_MERGE_REQUEST_DIFF_BASE_SHA": "nosuch"})
    assert wrong.returncode != 0
