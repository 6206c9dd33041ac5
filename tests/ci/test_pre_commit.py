"""The hooks, installed and run by pre-commit itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ci.conftest import BROKEN, documented
from tests.repositories import Repo

pytestmark = pytest.mark.slow

POLICIES = """\
policies:
  - id: TEAM001
    message: m
    deny: stage.stage_id == 7
    examples: {%s: [qwen3_tts]}
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pre-commit keeps the environments of hooks: the first run installs, the others find it."""
    return tmp_path_factory.mktemp("pre-commit")


def commit(repo: Repo, home: Path) -> subprocess.CompletedProcess[str]:
    """`git commit` with the hooks that are installed."""
    environment = {**os.environ, "PRE_COMMIT_HOME": str(home), "GIT_CONFIG_GLOBAL": os.devnull}
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    repo.git("add", "-A")
    return subprocess.run(
        ["git", *identity, "commit", "-m", "x"],
        cwd=repo.root,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )


def install(repo: Repo, source: Path, home: Path, more: str = "") -> None:
    text = documented(".pre-commit-config.yaml").replace("https://github.com/omnicfg/omnicfg", str(source))
    (repo.root / ".pre-commit-config.yaml").write_text(
        text.replace("rev: main", f"rev: {Repo(source).git('rev-parse', 'HEAD')}") + more
    )
    environment = {**os.environ, "PRE_COMMIT_HOME": str(home)}
    subprocess.run([sys.executable, "-m", "pre_commit", "install"], cwd=repo.root, env=environment, check=True)


def test_a_base_is_not_committed_where_it_breaks_what_builds_on_it(repo: Repo, source: Path, home: Path) -> None:
    install(repo, source, home)
    repo.write(profiles__base=BROKEN)
    done = commit(repo, home)
    assert done.returncode == 1, done.stderr
    assert "omnicfg validate.........................................................Failed" in done.stderr
    assert "error[OC101] unknown-key" in done.stderr
    repo.write(profiles__base=BROKEN.replace("max_num_seq", "max_num_seqs"))
    assert commit(repo, home).returncode == 0
    (repo.root / "README.md").write_text("no profile\n")
    assert "(no files to check)Skipped" in commit(repo, home).stderr


def test_a_base_that_is_deleted_is_missed_where_the_hook_always_runs(repo: Repo, source: Path, home: Path) -> None:
    install(repo, source, home, "        always_run: true\n")
    (repo.root / "profiles" / "base.yaml").unlink()
    done = commit(repo, home)
    assert done.returncode == 1, done.stderr
    assert "error[OC006] bad-base: the base `base.yaml` does not exist" in done.stderr


def test_policies_are_tried_on_their_examples(repo: Repo, source: Path, home: Path) -> None:
    install(repo, source, home, "      - id: omnicfg-policy-test\n")
    (repo.root / "policies.yaml").write_text(POLICIES % "fail")
    done = commit(repo, home)
    assert done.returncode == 1, done.stderr
    assert "WRONG TEAM001 fail: qwen3_tts on cuda: the policy finds nothing" in done.stderr
    (repo.root / "policies.yaml").write_text(POLICIES % "pass")
    assert commit(repo, home).returncode == 0
