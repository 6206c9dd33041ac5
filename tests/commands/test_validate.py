"""``omnicfg validate``."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from omnicfg.catalog.paths import data_root
from omnicfg.report.formats import format_names
from tests.commands.conftest import Run
from tests.conftest import WriteProfile

GOOD = "pipeline: qwen3_tts\nasync_chunk: false\nstages:\n  - {stage_id: 0, enable_prefix_caching: false}\n"
BAD = "pipeline: qwen3_tts\nasync_chunk: false\nstages:\n  - {stage_id: 0, max_num_seq: 8}\n"


def test_clean(run: Run, profile_file: WriteProfile) -> None:
    result = run("validate", profile_file(GOOD))
    assert (result.code, result.out, result.err) == (0, "No findings in 1 profile.\n", "")


def test_findings(run: Run, profile_file: WriteProfile) -> None:
    path = profile_file(BAD)
    result = run("validate", path)
    assert result.code == 1
    assert f"--> {path}:4:19" in result.out
    assert result.out.endswith("1 error in 1 profile; 1 can be fixed with `--fix`.\n")


@pytest.fixture
def nameless(tmp_path: Path) -> Path:
    """A profile with a mistake, in a file whose name is no UTF-8."""
    path = tmp_path / os.fsdecode(b"caf\xe9.yaml")
    try:
        path.write_text(BAD, encoding="utf-8")
    except OSError:
        pytest.skip("this file system has UTF-8 names only")
    return path


@pytest.mark.parametrize("name", format_names())
def test_a_file_may_have_a_name_that_is_no_text(run: Run, nameless: Path, tmp_path: Path, name: str) -> None:
    out = tmp_path / "report.out"
    result = run("validate", nameless, "--format", f"{name}:{out}")
    assert (result.code, result.err) == (1, "")
    assert "max_num_seq" in out.read_text(encoding="utf-8")


def test_such_a_name_comes_back_out_of_json_and_a_baseline_knows_it(run: Run, nameless: Path, tmp_path: Path) -> None:
    report, known = tmp_path / "report.json", tmp_path / "known.json"
    run("validate", nameless, "--format", f"json:{report}")
    assert json.loads(report.read_text(encoding="utf-8"))["diagnostics"][0]["path"] == str(nameless)
    assert run("validate", nameless, "--write-baseline", known).code == 0
    assert run("validate", nameless, "--baseline", known).code == 0


def test_json_is_all_that_is_printed(run: Run, profile_file: WriteProfile) -> None:
    path = profile_file(BAD)
    result = run("validate", path, "--format", "json")
    assert (result.code, result.err) == (1, "")
    (finding,) = result.data["diagnostics"]
    assert (finding["code"], finding["line"], finding["column"], finding["stage_id"]) == ("OC101", 4, 19, 0)
    assert finding["url"].endswith("OC101.md")
    assert result.data["summary"]["error"] == 1


def test_warnings_count_where_they_are_asked_to(run: Run) -> None:
    assert run("validate", "minicpmo_4_5_turn_mrv2").code == 0
    assert run("validate", "minicpmo_4_5_turn_mrv2", "--fail-on", "warning").code == 1


def test_a_directory_is_searched_and_a_finding_in_a_shared_base_appears_once(
    run: Run, profile_file: WriteProfile, tmp_path: Path
) -> None:
    profile_file(BAD, "base.yaml")
    for name in ("a", "b", "c"):
        profile_file("base_config: base.yaml\npipeline: qwen3_tts\n", f"{name}.yaml")
    profile_file("jobs: {}\n", "ci.yml")
    result = run("validate", tmp_path, "--format", "json")
    summary = {"profiles": 4, "error": 1, "warning": 0, "note": 0, "suppressed": 0, "baseline": 0}
    assert result.data["summary"] == summary


def test_without_a_path_it_is_the_current_directory(
    run: Run, profile_file: WriteProfile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile_file(BAD)
    monkeypatch.chdir(tmp_path)
    result = run("validate")
    assert result.code == 1
    assert "--> profile.yaml:4:19" in result.out


def test_a_file_that_is_no_yaml_is_reported_where_it_is_named(
    run: Run, profile_file: WriteProfile, tmp_path: Path
) -> None:
    path = profile_file("a: [\n", "broken.yaml")
    result = run("validate", path)
    assert result.code == 1
    assert "error[OC002] yaml-syntax" in result.out
    assert run("validate", tmp_path).out == "No profiles found: no YAML file there looks like one.\n"


def test_a_broken_profile_in_a_directory_is_not_overlooked(
    run: Run, profile_file: WriteProfile, tmp_path: Path
) -> None:
    profile_file("stages:\n  - stage_id: 0\n   bad: [\n", "broken.yaml")
    assert run("validate", tmp_path).code == 1


def test_the_shipped_library_has_no_errors(run: Run) -> None:
    result = run("validate", data_root() / "profiles", "--format", "json")
    assert (result.code, result.data["summary"]["error"]) == (0, 0)


def test_one_platform(run: Run, profile_file: WriteProfile) -> None:
    path = profile_file(GOOD + "model_runner: v2\n")
    assert run("validate", path, "--platform", "rocm").code == 0
    result = run("validate", path, "--platform", "npu")
    assert result.code == 1
    assert "= platform: npu" in result.out


def test_overlays_and_settings_are_checked_with_the_profile(run: Run, profile_file: WriteProfile) -> None:
    path, overlay = profile_file(GOOD), profile_file("stagse: []\n", "overlay.yaml")
    assert "Did you mean `stages`?" in run("validate", path, "--overlay", overlay).out
    result = run("validate", path, "--set", "stages.0.max_num_seqs=64", "--set", "stages.0.max_num_batched_tokens=8")
    assert "OC603" in result.out


@pytest.mark.parametrize("words", [["nosuch.yaml"], ["qwen3_tts", "--platform", "gpu"], ["qwen3_tts", "--set", "x"]])
def test_trouble(run: Run, words: list[str]) -> None:
    result = run("validate", *words, "--format", "json")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("error")


def test_credentials_are_hidden(run: Run, profile_file: WriteProfile) -> None:
    path = profile_file(GOOD + "    hf_token: {secret: hf_abc}\n    api_key: hf_abc\n")
    for format in ("text", "json"):
        result = run("validate", path, "--format", format)
        assert result.code == 1
        assert "hf_abc" not in result.out + result.err


# ------------------------------------------------------------------------------------------------------- formats
def test_a_report_in_several_formats_of_which_one_is_printed(
    run: Run, profile_file: WriteProfile, tmp_path: Path
) -> None:
    path = profile_file(BAD)
    file = tmp_path / "report.json"
    result = run("validate", path, "--format", f"json:{file}", "--format", "text")
    assert (result.code, result.err) == (1, "")
    assert result.out.endswith("1 error in 1 profile; 1 can be fixed with `--fix`.\n")
    assert json.loads(file.read_text())["summary"]["error"] == 1


def test_nothing_is_printed_where_everything_goes_to_files(
    run: Run, profile_file: WriteProfile, tmp_path: Path
) -> None:
    result = run("validate", profile_file(BAD), "--format", f"text:{tmp_path / 'report.txt'}")
    assert (result.code, result.out, result.err) == (1, "", "")
    assert "\x1b" not in (tmp_path / "report.txt").read_text()


@pytest.mark.parametrize(
    ("formats", "message"),
    [
        (["text", "json"], "`text` and `json` cannot both be printed"),
        (["sarfi"], "there is no format `sarfi`"),
        (["json:"], "`--format json:` names no file"),
        (["json:nowhere/report.json"], "there is no directory `nowhere`"),
        (["json:."], "`.` is a directory"),
        (["json:profile.yaml"], "no report is written to `profile.yaml`"),
        (["json:same", "text:./same"], "two formats cannot both be written to `same`"),
    ],
)
def test_formats_that_cannot_be_made_are_told_before_anything_is_checked(
    run: Run,
    profile_file: WriteProfile,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    formats: list[str],
    message: str,
) -> None:
    path = profile_file(BAD)
    monkeypatch.chdir(tmp_path)
    result = run("validate", path, *(word for name in formats for word in ("--format", name)))
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_a_directory_below_that_cannot_be_read_is_told(
    run: Run, profile_file: WriteProfile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile_file(GOOD)
    (tmp_path / "closed").mkdir()
    listed = os.scandir

    def scandir(path: Path) -> object:
        if "closed" in str(path):
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    result = run("validate", tmp_path)
    told = f"note: the directory `{tmp_path / 'closed'}` is left out, since it cannot be read: Permission denied\n"
    assert (result.code, result.out, result.err) == (0, "No findings in 1 profile.\n", told)
