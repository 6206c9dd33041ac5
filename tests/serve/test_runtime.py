"""Sockets lie where only their user can reach them, and go with their server."""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path

import pytest

from omnicfg.errors import ServeError
from omnicfg.serve import runtime
from omnicfg.serve.runtime import private, runtime_directory
from tests.patience import PATIENCE_S


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return runtime_directory("8091")


def test_it_is_this_users_alone_and_gone_at_the_end(directory: Path, tmp_path: Path) -> None:
    assert directory == tmp_path / "omnicfg/8091"
    with private(directory):
        assert [path.stat().st_mode & 0o777 for path in (directory.parent, directory)] == [0o700, 0o700]
        (directory / "rows.sock").touch()
    assert not directory.exists()


def test_it_is_gone_after_a_failure_too(directory: Path) -> None:
    def fail() -> None:
        with private(directory):
            raise ServeError("the server died")

    with pytest.raises(ServeError, match="died"):
        fail()
    assert not directory.exists()


def test_a_second_server_does_not_take_the_sockets_of_the_first_away(directory: Path) -> None:
    with private(directory):
        (directory / "rows.sock").touch()
        with pytest.raises(ServeError, match="is in use: a server of yours has this address"), private(directory):
            pass
        assert (directory / "rows.sock").exists()


def test_what_a_watcher_is_removing_is_waited_for(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "_REMOVAL_S", PATIENCE_S)
    directory.mkdir(parents=True, mode=0o700)
    directory.parent.chmod(0o700)
    lock = os.open(directory, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)

    def remove() -> None:
        directory.rmdir()
        os.close(lock)

    removal = threading.Timer(0.2, remove)
    removal.start()
    with private(directory):
        assert directory.exists()
    removal.join()


@pytest.mark.parametrize("where", ["", "relative", "/no/such/dir"])
def test_without_a_runtime_directory_it_is_among_the_temporary_ones(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", where)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert runtime_directory("8091").parent.parent == tmp_path


@pytest.mark.parametrize("kind", ["open", "link", "file"])
def test_a_place_that_others_can_reach_is_refused(directory: Path, tmp_path: Path, kind: str) -> None:
    place = directory.parent
    if kind == "open":
        place.mkdir(mode=0o755)
    elif kind == "link":
        place.symlink_to(tmp_path)
    else:
        place.touch()
    with pytest.raises(ServeError, match="only you can enter"), private(directory):
        pass


def test_a_place_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    with pytest.raises(ServeError, match="cannot be made"), private(tmp_path / "no/such/place"):
        pass
