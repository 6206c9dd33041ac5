"""Command lines that make no sense: an exit code that is documented and words for people, never a traceback."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from omnicfg.cli import main
from tests.conftest import WriteProfile
from tests.fuzz.harness import time_limit
from tests.fuzz.test_hostile_overrides import FOUND, REFUSED

PROFILE = "qwen3_omni_moe"


def run(words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Exit code, output and errors of a command line."""
    monkeypatch.setattr(sys, "argv", ["omnicfg", *words])
    with time_limit(), pytest.raises(SystemExit) as ended:
        main()
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    assert isinstance(ended.value.code, int)
    return ended.value.code, out, err


@pytest.mark.parametrize("text", REFUSED, ids=[text[:40] for text in REFUSED])
def test_a_setting_that_is_refused(
    text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(["resolve", PROFILE, f"--set={text}"], monkeypatch, capsys)
    assert (code, out) == (2, "")
    assert err.startswith("error")
    assert len(err) < 4000


@pytest.mark.parametrize("text", FOUND, ids=list(FOUND))
def test_a_setting_that_a_rule_finds(
    text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(["validate", PROFILE, f"--set={text}"], monkeypatch, capsys)
    assert code == 1
    assert "--set" in out


BAD_LINES: tuple[list[str], ...] = (
    [],
    ["resolv"],
    ["resolve"],
    ["resolve", ""],
    ["resolve", PROFILE, "extra"],
    ["resolve", PROFILE, "--set"],
    ["resolve", PROFILE, "--no-such-option"],
    ["resolve", PROFILE, "--platform", "tpu"],
    ["resolve", PROFILE, "--platform="],
    ["resolve", PROFILE, "--format", "xml"],
    ["resolve", PROFILE, "--pipeline", "nope"],
    ["resolve", PROFILE, "--overlay", "missing.yaml"],
    ["resolve", PROFILE, "--overlay", "/dev/zero"],
    ["resolve", "a" * 5000],
    ["resolve", "\udc80"],
    ["resolve", "a\0b"],
    ["validate", "missing.yaml"],
    ["validate", PROFILE, "--engine", "none"],
    ["explain", PROFILE],
    ["explain", PROFILE, "stages.99999999999999999999.devices"],
    ["explain", PROFILE, "." * 5000],
    ["explain", PROFILE, ""],
    ["diff", PROFILE],
    ["diff", PROFILE, "missing"],
    ["schema", "nothing"],
    ["--verison"],
)


@pytest.mark.parametrize("words", BAD_LINES, ids=[" ".join(words)[:40] or "nothing" for words in BAD_LINES])
def test_a_command_line_that_makes_no_sense(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(words, monkeypatch, capsys)
    assert (code, out) == (2, "")
    assert err
    assert len(err) < 8000


@pytest.mark.parametrize("config", ["", "{", "[]", "null", '{"model_type": 5}', "[" * 100_000])
def test_a_model_directory_that_is_none(
    tmp_path: Path,
    profile_file: WriteProfile,
    config: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    profile = profile_file("async_chunk: false\n", "own.yaml")
    (tmp_path / "config.json").write_text(config, encoding="utf-8")
    code, out, err = run(["resolve", str(profile), "--model", str(tmp_path)], monkeypatch, capsys)
    assert (code, out) == (2, "")
    assert "OC0" in err
