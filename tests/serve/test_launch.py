"""What an engine is about to start: its files."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnicfg.errors import ServeError
from omnicfg.serve.launch import Launch


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
