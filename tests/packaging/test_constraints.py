"""The exact versions that `constraints.txt` names can be installed on every Python that omnicfg runs on."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOWEST = re.fullmatch(
    r">=(\d+\.\d+)", tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
)


@pytest.mark.slow
def test_every_version_is_there_for_the_first_release_of_the_lowest_python(tmp_path: Path) -> None:
    """Of an old system's Python, say: a version may ask for a later release of the same series."""
    assert LOWEST is not None
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--ignore-installed", "--only-binary", ":all:", "--python-version", f"{LOWEST[1]}.0"]
    command += ["--target", str(tmp_path), "--requirement", str(ROOT / "constraints.txt")]
    told = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)
    assert told.returncode == 0, told.stderr[-2000:]
