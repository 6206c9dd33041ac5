"""Files are written whole or not at all."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from omnicfg.errors import UsageError
from omnicfg.files import check_report, write_whole


def test_a_file_is_written_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    write_whole(target, "one\r\n名")
    write_whole(target, "two\n")
    assert target.read_bytes() == b"two\n"
    assert list(tmp_path.iterdir()) == [target]


def test_line_breaks_stay_as_they_are(tmp_path: Path) -> None:
    write_whole(tmp_path / "a", "one\r\ntwo\n")
    assert (tmp_path / "a").read_bytes() == b"one\r\ntwo\n"


def test_a_new_file_has_the_permissions_of_any_other_and_an_old_one_keeps_its_own(tmp_path: Path) -> None:
    new, other = tmp_path / "new", tmp_path / "other"
    write_whole(new, "")
    other.touch()
    assert new.stat().st_mode == other.stat().st_mode
    new.chmod(0o640)
    write_whole(new, "x")
    assert stat.S_IMODE(new.stat().st_mode) == 0o640


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("target")
    write_whole(link, "x")
    assert link.is_symlink()
    assert (tmp_path / "target").read_text() == "x"


def test_what_is_no_regular_file_is_written_to_as_it_is() -> None:
    write_whole(Path("/dev/null"), "x")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_a_pipe_is_written_to_whatever_its_name_leads_to(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    link = tmp_path / "stdout"
    link.symlink_to(f"/dev/fd/{writing}")
    write_whole(link, "x")
    os.close(writing)
    assert os.read(reading, 10) == b"x"
    os.close(reading)


@pytest.mark.parametrize("name", ["profile.yaml", "policy.YML", "pyproject.toml"])
def test_a_report_never_takes_the_place_of_what_is_checked(tmp_path: Path, name: str) -> None:
    check_report(tmp_path / "report.json")
    with pytest.raises(UsageError, match="no report is written to"):
        check_report(tmp_path / name)


def test_what_breaks_on_the_way_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "out"
    write_whole(target, "old")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(UsageError, match="No space left"):
        write_whole(target, "new")
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_folder_that_is_missing_or_no_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"there is no directory `{tmp_path / 'no'}`"):
        write_whole(tmp_path / "no" / "out", "x")
    with pytest.raises(UsageError, match="is a directory"):
        write_whole(tmp_path, "x")


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_to_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="Permission denied"):
        write_whole(tmp_path / "out", "x")
