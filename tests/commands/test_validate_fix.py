"""``omnicfg validate --fix``, ``--diff`` and ``--unsafe-fixes``."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.commands.conftest import Run
from tests.conftest import WriteProfile

HEAD = "pipeline: qwen3_tts\nasync_chunk: false\n"
BAD = HEAD + "stages:\n  - stage_id: '0'  # the talker\n    max_num_seq: 8\n    enable_prefix_caching: false\n"
GOOD = BAD.replace("'0'", "0").replace("max_num_seq:", "max_num_seqs:")


def test_what_is_fixed_is_clean(run: Run, profile_file: WriteProfile) -> None:
    path = profile_file(BAD)
    result = run("validate", path, "--fix")
    assert (result.code, result.out) == (0, "No findings in 1 profile.\n")
    assert result.err == "3 findings fixed in 1 file.\n"
    assert path.read_text() == GOOD
    assert run("validate", path, "--fix").err == "No findings fixed.\n"


def test_what_is_left_is_told_in_any_format(run: Run, profile_file: WriteProfile) -> None:
    path = profile_file(BAD + "session_mode: duplex\nunheard_of_key: 1\n")
    result = run("validate", path, "--fix", "--format", "json")
    assert result.code == 1
    assert [finding["code"] for finding in result.data["diagnostics"]] == ["OC403", "OC101"]
    assert "2 more can be fixed with `--unsafe-fixes`, which changes what runs." in result.err
    assert run("validate", path, "--fix", "--unsafe-fixes").code == 0
    assert path.read_text() == GOOD + "session_mode: turn\n"


def test_the_diff_is_shown_and_nothing_is_written(run: Run, profile_file: WriteProfile, tmp_path: Path) -> None:
    path = profile_file(BAD)
    result = run("validate", path, "--diff", "--fix")
    assert result.code == 1
    assert result.err == "3 findings would be fixed in 1 file.\n"
    assert path.read_text() == BAD
    (tmp_path / "fixes.patch").write_text(result.out)
    subprocess.run(["patch", "--quiet", "-p0", path, tmp_path / "fixes.patch"], check=True)
    assert path.read_text() == GOOD
    result = run("validate", path, "--diff")
    assert (result.code, result.out) == (0, "")


def test_the_diff_hides_credentials(run: Run, profile_file: WriteProfile) -> None:
    path = profile_file(BAD.replace("'0'", "'0'\n    env: {HF_TOKEN: hf_abc}") + "    hf_token: hf_abc\n")
    out = run("validate", path, "--diff").out
    assert "HF_TOKEN: ***" in out
    assert "hf_abc" not in out


def test_a_report_may_be_written_beside_the_diff(run: Run, profile_file: WriteProfile, tmp_path: Path) -> None:
    path, report = profile_file(BAD), tmp_path / "report.json"
    assert run("validate", path, "--diff", "--format", f"json:{report}").out.startswith("--- ")
    assert "OC101" in report.read_text()


def test_a_base_that_is_not_named_is_left_alone(run: Run, profile_file: WriteProfile) -> None:
    base = profile_file(BAD, "base.yaml")
    path = profile_file("base_config: base.yaml\npipeline: qwen3_tts\n", "derived.yaml")
    result = run("validate", path, "--fix")
    assert result.code == 1
    assert f"{base} is not among the files that are named: 3 findings with a fix left." in result.err
    assert base.read_text() == BAD


def test_an_overlay_that_is_named_is_fixed(run: Run, profile_file: WriteProfile) -> None:
    overlay = profile_file("stages:\n  - stage_id: 0\n    max_num_seq: 8\n", "overlay.yaml")
    assert run("validate", "qwen3_tts", "--overlay", overlay, "--fix").code == 0
    assert "max_num_seqs: 8" in overlay.read_text()


@pytest.mark.parametrize("words", [["--unsafe-fixes"], ["--diff", "--format", "json"]])
def test_trouble(run: Run, profile_file: WriteProfile, words: list[str]) -> None:
    path = profile_file(BAD)
    assert run("validate", path, *words).code == 2
    assert path.read_text() == BAD
