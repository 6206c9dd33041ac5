"""What an engine is about to start: its files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from omnicfg.errors import ServeError
from omnicfg.serve.child import child
from omnicfg.serve.launch import Launch


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current directory is one that was cloned, and has modules named as ours and as Python's."""
    monkeypatch.chdir(tmp_path)
    for name in ("omnicfg", "json", "signal"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('code of the directory ran')")


@pytest.mark.usefixtures("hostile")
def test_a_server_takes_no_code_from_the_directory_it_is_started_in() -> None:
    command = [sys.executable, "-m", "omnicfg.cli", "--version"]
    done = subprocess.run(command, env=Launch(()).environment(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.usefixtures("hostile")
def test_what_watches_over_a_server_takes_none_either() -> None:
    with child([sys.executable, "-c", "pass"], grace_s=1.0) as process:
        assert process.wait() == 0


def test_files_are_written_with_the_folders_that_they_need(tmp_path: Path) -> None:
    file = tmp_path / "new" / "folder" / "x.json"
    Launch((), files={file: "{}"}).write_files()
    assert file.read_text(encoding="utf-8") == "{}"


def test_a_file_is_this_users_alone_and_never_seen_half_written(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text("before")
    with file.open() as reader:  # a server that starts at the same time
        Launch((), files={file: '{"env": {"TOKEN": "sesame"}}'}).write_files()
        assert reader.read() == "before"
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_cache_that_cannot_be_written_is_told_with_what_to_set(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ServeError, match="cannot be written") as caught:
        Launch((), files={tmp_path / "file" / "x.json": ""}).write_files()
    assert "XDG_CACHE_HOME" in str(caught.value.diagnostics[0].help)
