"""``omnicfg migrate`` as it is typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands.conftest import Run
from tests.conftest import WriteProfile
from tests.migrate import files


@pytest.fixture
def old(profile_file: WriteProfile) -> Path:
    return profile_file(files.TTS, "old.yaml")


def test_the_profile_goes_to_stdout_and_the_report_to_stderr(run: Run, old: Path) -> None:
    for way in ([], ["--stdout"]):
        result = run("migrate", old, *way)
        assert result.code == 0
        assert result.out.startswith("# Our voice server")
        assert "nothing is lost" in result.err
    assert [path.name for path in old.parent.iterdir()] == ["old.yaml"]


def test_with_output_the_report_goes_to_stdout(run: Run, old: Path) -> None:
    result = run("migrate", old, "-o", old.parent / "new.yaml")
    assert result.code == 0
    assert "now `stages.0.max_num_seqs`" in result.out
    assert "wrote" in result.err
    assert run("validate", old.parent / "new.yaml").code == 0


def test_in_place_keeps_a_copy_under_a_free_name(run: Run, old: Path) -> None:
    (old.parent / "old.yaml.bak").write_text("mine", encoding="utf-8")
    assert run("migrate", "--in-place", old).code == 0
    assert (old.parent / "old.yaml.bak").read_text(encoding="utf-8") == "mine"
    assert (old.parent / "old.yaml.bak1").read_text(encoding="utf-8") == files.TTS
    assert "stage_args" not in old.read_text(encoding="utf-8")
    assert run("resolve", old).code == 0


def test_check_writes_nothing_and_fails_only_on_losses(run: Run, old: Path, profile_file: WriteProfile) -> None:
    new = profile_file("pipeline: qwen3_tts\n", "new.yaml")
    assert run("migrate", "--check", old, new).code == 0
    lossy = profile_file(files.SPLIT, "split.yaml")
    result = run("migrate", "--check", old, new, lossy)
    assert result.code == 1
    assert "cannot be expressed" in result.out
    unknown = profile_file("stage_args: [{stage_id: 0}]\n", "unknown.yaml")
    assert run("migrate", "--check", unknown).code == 1
    assert sorted(path.name for path in old.parent.iterdir()) == ["new.yaml", "old.yaml", "split.yaml", "unknown.yaml"]


def test_losses_make_the_exit_code_one_and_the_profile_is_written_all_the_same(
    run: Run, profile_file: WriteProfile
) -> None:
    lossy = profile_file(files.SPLIT, "split.yaml")
    assert run("migrate", lossy, "-o", lossy.parent / "new.yaml").code == 1
    assert run("resolve", lossy.parent / "new.yaml").code == 0


def test_json_and_markdown(run: Run, old: Path) -> None:
    data = run("migrate", "--check", old, "--format", "json").data
    (file,) = data["files"]
    assert file["proof"]["checked"] == file["proof"]["held"] > 0
    assert file["summary"]["lost"] == 0
    line = next(one for one in file["settings"] if one["path"] == "stage_args.0.runtime.max_batch_size")
    assert (line["line"], line["fate"], line["to"]) == (11, "renamed", "stages.0.max_num_seqs")
    text = run("migrate", "--check", old, "--format", "markdown").out
    assert "| 11 | `stage_args.0.runtime.max_batch_size` | `4` | now `stages.0.max_num_seqs` |" in text


def test_refused_files_are_data_too(run: Run, profile_file: WriteProfile) -> None:
    unknown = profile_file("stage_args: [{stage_id: 0}]\n", "unknown.yaml")
    data = run("migrate", "--check", unknown, "--format", "json").data
    assert data["refused"][0]["diagnostics"][0]["code"] == "OC013"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "OLD is missing"),
        (["OLD", "OLD"], "one file at a time"),
        (["OLD", "--check", "--stdout"], "exclude each other"),
        (["OLD", "--flat", "--base", "qwen3_tts"], "`--flat` has no base"),
        (["OLD", "-o", "OLD"], "is the old file itself"),
        (["OLD", "-o", "nowhere/new.yaml"], "there is no directory"),
        (["OLD", "--base", "qwen3_ttss"], "no profile `qwen3_ttss`"),
        (["OLD", "--platform", "tpu"], "unknown platform `tpu`"),
        (["missing.yaml"], "cannot be read"),
    ],
)
def test_requests_that_cannot_be_carried_out(run: Run, old: Path, words: list[str], message: str) -> None:
    result = run("migrate", *[str(old) if word == "OLD" else word for word in words])
    assert result.code == 2
    assert message in result.err
    assert "Traceback" not in result.err


def test_secrets_of_an_old_file_are_not_printed(run: Run, profile_file: WriteProfile) -> None:
    text = files.TTS.replace("      worker_type: ar\n", "      worker_type: ar\n      hf_token: hunter2secret\n")
    result = run("migrate", "--check", profile_file(text, "old.yaml"))
    assert "hunter2secret" not in result.out + result.err
