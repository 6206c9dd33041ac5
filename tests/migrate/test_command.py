"""``omnicfg migrate`` as it is typed."""

from __future__ import annotations

import json
import os
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


@pytest.mark.parametrize(
    "raw",
    [
        b"kind: Service\n---\nkind: Pod\n",
        b"Bucket: !Ref Name\n",
        b"name: {{ .Values.name }}\n",
        b"- hosts: all\n",
        b"name: M\xfcller\n",
        b"a: 1\na: 2\n",
        b"# a lock\n" + b"- a: 1\n" * 400_000,
    ],
    ids=["documents", "tags", "template", "list", "latin-1", "twice", "large"],
)
def test_check_passes_files_of_other_tools(run: Run, tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "other.yaml"
    path.write_bytes(raw)
    result = run("migrate", "--check", path)
    assert (result.code, result.out, result.err) == (0, "", "")
    path.write_bytes(b"stage_args: []\n" + raw)
    assert run("migrate", "--check", path).code != 0


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
        (["--command", "vllm serve x --omni", "-o", "NEW", "--stdout"], "exclude each other"),
        (["--command", "vllm serve x --omni", "--flat", "--base", "qwen3_tts"], "`--flat` has no base"),
        (["OLD", "-o", "OLD"], "is read for this itself"),
        (["OLD", "-o", "nowhere/new.yaml"], "there is no directory"),
        (["OLD", "--base", "qwen3_ttss"], "no profile `qwen3_ttss`"),
        (["OLD", "--platform", "tpu"], "unknown platform `tpu`"),
        (["missing.yaml"], "cannot be read"),
        (["--check", "OLD", "missing.yaml"], "cannot be read"),
        (["--command", "vllm serve x --omni"], "= help: Name the profile (`--base`), or pass `--pipeline KEY`."),
        (
            ["--command", "vllm serve x --omni --deploy-config x.yaml", "--base", "qwen3_tts"],
            "the command names a deploy config, and `--base` another\n  = help: Leave `--base` out.",
        ),
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


SERVE = "vllm serve Qwen/Qwen3-TTS --omni"


def test_a_file_that_is_read_is_never_written_over(run: Run, old: Path, profile_file: WriteProfile) -> None:
    base = profile_file("pipeline: qwen3_tts\n", "base.yaml")
    ours = profile_file("base_config: base.yaml\n", "ours.yaml")
    before = {path: path.read_text(encoding="utf-8") for path in (old, base, ours)}
    command = f"{SERVE} --deploy-config {ours} --max-num-seqs 3"
    for args in (
        ["--command", command, "-o", ours],
        ["--command", command, "-o", base],
        ["--command", f"{SERVE} --stage-configs-path {old}", "-o", old],
        [old, "--base", ours, "-o", base],
    ):
        result = run("migrate", *args)
        assert result.code == 2
        assert "is read for this itself" in result.err
    assert {path: path.read_text(encoding="utf-8") for path in before} == before


def test_of_an_old_command_no_flag_is_dropped_in_silence(run: Run, old: Path) -> None:
    command = f"{SERVE} --stage-configs-path {old} --nope 3 --served-model-name x --port $P"
    result = run("migrate", "--command", command, "--format", "json")
    assert result.code == 1
    report = json.loads(result.err[result.err.index("{") :])
    assert [each["code"] for each in report["findings"]] == ["OC856", "OC851"]
    assert report["command"].endswith(
        f'--deploy-config {old.with_name("profile.yaml")} --served-model-name x --port "$P"'
    )


def test_the_copy_of_a_replaced_file_is_byte_for_byte_the_old_one(run: Run, old: Path) -> None:
    old.write_bytes(files.TTS.replace("\n", "\r\n").encode())
    assert run("migrate", "--in-place", old).code == 0
    assert old.with_name("old.yaml.bak").read_bytes() == files.TTS.replace("\n", "\r\n").encode()


STAYS = (
    "--served-model-name a b",
    "--log-stats",
    '--port "$P"',
    '"$@"',
    "--middleware auth.Guard --middleware log.All",
    '--middleware auth.Guard --middleware "$M"',
    '--middleware "$M" --middleware log.All',
)


@pytest.mark.parametrize("flag", STAYS)
def test_what_a_profile_cannot_say_stays_in_the_command(run: Run, profile_file: WriteProfile, flag: str) -> None:
    profile = profile_file("pipeline: qwen3_tts\n")
    result = run("migrate", "--command", f"{SERVE} --deploy-config {profile} {flag} --max-num-seqs 3")
    assert result.code == 0
    assert f"{flag}\n" in result.err
    assert "stages.0.max_num_seqs" in result.err


def test_there_is_no_proof_for_a_command_that_does_not_start(run: Run, profile_file: WriteProfile) -> None:
    result = run("migrate", "--command", f"{SERVE} --deploy-config {profile_file('pipeline: qwen3_tts')} --nope")
    assert result.code == 1
    assert "no proof: the old command does not start, the error below says why" in result.err


def test_which_profile_a_command_starts_may_be_unknown(run: Run) -> None:
    result = run("resolve", "--command", f"{SERVE} --deploy-config configs/$ARM.yaml")
    assert result.code == 2
    assert "`--deploy-config configs/$ARM.yaml` holds what nothing here tells" in result.err


def test_only_plain_files_are_replaced(run: Run, old: Path) -> None:
    link, pipe = old.with_name("link.yaml"), old.with_name("pipe")
    link.symlink_to(old)
    os.mkfifo(pipe)
    for args, message in (
        ([old, "-o", old.parent], "is a directory"),
        ([old, "-o", link], "is a link"),
        ([old, "-o", pipe], "is not a regular file"),
        (["--in-place", link], "is a link"),
    ):
        result = run("migrate", *args)
        assert result.code == 2
        assert message in result.err
    assert sorted(path.name for path in old.parent.iterdir()) == ["link.yaml", "old.yaml", "pipe"]
    assert link.is_symlink()


def test_overrides_of_a_stage_go_over_a_flag_that_stays(run: Run, profile_file: WriteProfile) -> None:
    overrides = """--stage-overrides '{"0": {"max_num_seqs": 4}}'"""
    command = f'{SERVE} --deploy-config {profile_file("pipeline: qwen3_tts")} --max-num-seqs "$N" {overrides}'
    result = run("migrate", "--command", command, "--format", "markdown")
    assert result.code == 0
    assert f'--max-num-seqs "$N" {overrides}\n```' in result.err
    assert "| `--max-num-seqs $N` | kept in the command: its value is not known here |" in result.err
