"""A checkpoint appears whole or not at all, however many processes make it at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from omnicfg.cache import make_once, user_cache
from omnicfg.errors import UsageError


def test_the_directory_is_written_once(tmp_path: Path) -> None:
    calls: list[Path] = []

    def write(directory: Path) -> None:
        calls.append(directory)
        (directory / "file").write_text("made")

    target = tmp_path / "deep" / "thing"
    assert make_once(target, write) == make_once(target, write) == target
    assert len(calls) == 1
    assert (target / "file").read_text() == "made"


def test_nothing_is_left_of_a_failure(tmp_path: Path) -> None:
    def write(directory: Path) -> None:
        (directory / "half").write_text("")
        raise RuntimeError("no more disk")

    with pytest.raises(RuntimeError, match="no more disk"):
        make_once(tmp_path / "thing", write)
    assert list(tmp_path.iterdir()) == []


def test_the_loser_of_a_race_takes_the_winners_work(tmp_path: Path) -> None:
    target = tmp_path / "thing"

    def win(directory: Path) -> None:
        (directory / "file").write_text("winner")

    def write(directory: Path) -> None:
        make_once(target, win)
        (directory / "file").write_text("loser")

    make_once(target, write)
    assert (target / "file").read_text() == "winner"
    assert list(tmp_path.iterdir()) == [target]


def test_processes_that_race_all_get_it(tmp_path: Path) -> None:
    program = (
        "import sys, time, pathlib; from omnicfg.cache import make_once\n"
        "def write(directory):\n"
        "    for n in range(20): (directory / str(n)).write_text(str(n)); time.sleep(0.005)\n"
        "print(len(list(make_once(pathlib.Path(sys.argv[1]) / 'thing', write).iterdir())))"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    racers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert [racer.communicate()[0].strip() for racer in racers] == ["20"] * 4
    assert [entry.name for entry in tmp_path.iterdir()] == ["thing"]


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    with pytest.raises(UsageError, match="no home directory") as caught:
        user_cache()
    assert "XDG_CACHE_HOME" in str(caught.value.diagnostics[0].help)


@pytest.mark.parametrize(
    ("configured", "expected"),
    [
        ("/elsewhere", "/elsewhere/omnicfg"),
        ("relative", "/home/someone/.cache/omnicfg"),
        ("", "/home/someone/.cache/omnicfg"),
    ],
)
def test_the_cache_follows_the_xdg_rules(configured: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.setenv("XDG_CACHE_HOME", configured)
    assert user_cache() == Path(expected)
