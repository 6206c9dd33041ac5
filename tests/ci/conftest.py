"""A repository of profiles to check, and what a CI service puts around a script."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.docs.examples import ROOT, blocks
from tests.repositories import BASE, DERIVED, Repo

BROKEN = BASE.replace("max_num_seqs", "max_num_seq")


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """A base and what builds on it; the last commit turns the base's prefix cache on."""
    (tmp_path / "checkout").mkdir()
    made = Repo(tmp_path / "checkout")
    made.commit(profiles__base=BASE, profiles__derived=DERIVED)
    made.commit(profiles__base=BASE.replace("false", "true"))
    return made


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This repository's files as somebody else would get them: a git repository of one commit."""
    folder = tmp_path_factory.mktemp("source")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, os.fsdecode(listed.stdout).split("\0")):
        if (ROOT / name).is_file() and not name.startswith(("tests/", "docs/")):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    Repo(folder).commit()
    return folder


@pytest.fixture(scope="session")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that a release would bring."""
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(out), str(source)]
    subprocess.run(command, check=True, timeout=300)
    (built,) = out.glob("*.whl")
    return built


Script = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def script(repo: Repo) -> Script:
    """Runs a script in the checkout the way runners do: bash, stopping at the first error."""

    def run(text: str, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", text],
            cwd=repo.root,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    return run


def documented(title: str) -> str:
    """A file of docs/ci.md, by its name."""
    page = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    (found,) = [block.text for block in blocks(page) if block.title == title]
    return found


def parsed(text: str) -> Any:
    """YAML 1.2 as data: `on` is a word."""
    return YAML(typ="safe", pure=True).load(text)
