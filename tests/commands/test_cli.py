"""The command line as a whole: exit codes, where output goes, and how fast it starts."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from omnicfg.cli import command_names
from tests.commands.conftest import Run

ROOT = Path(__file__).parents[2]
HEAVY = {"jsonschema", "pydantic", "rich", "typer", "torch", "transformers", "vllm", "vllm_omni", "omegaconf"}


def test_without_a_command_the_overview_goes_to_standard_error(run: Run) -> None:
    result = run()
    assert (result.code, result.out) == (2, "")
    assert "usage: omnicfg COMMAND" in result.err


def test_help_lists_every_command_and_the_exit_codes(run: Run) -> None:
    result = run("--help")
    assert (result.code, result.err) == (0, "")
    assert all(f"  {name} " in result.out for name in command_names())
    codes = "0 clean, 1 findings or differences, 2 usage or trouble, 130 interrupted, 141 output cut off."
    assert f"Exit codes: {codes}" in result.out


@pytest.mark.parametrize("command", command_names())
def test_every_command_has_help(run: Run, command: str) -> None:
    result = run(command, "--help")
    assert result.code == 0
    assert result.out.startswith(f"usage: omnicfg {command}")


def test_version(run: Run) -> None:
    assert run("--version").out == "omnicfg 0.1.0\n"


@pytest.mark.parametrize(
    ("words", "message", "help"),
    [
        (["reslove", "x"], "`omnicfg` has no command `reslove`", "Did you mean `resolve`?"),
        (["help", "resolve"], "`omnicfg` has no command `help`", "Did you mean `--help`?"),
        (["version"], "`omnicfg` has no command `version`", "Did you mean `--version`?"),
        (["check"], "`omnicfg` has no command `check`", "Commands: "),
        (["--versio"], "`omnicfg` has no option `--versio`", "Did you mean `--version`?"),
        (["-V"], "`omnicfg` has no option `-V`", "Options: --help, --version;"),
        (["--help", "resolve"], "`omnicfg --help` takes no `resolve`", "`omnicfg resolve --help` shows a command's"),
        (["--version", "x"], "`omnicfg --version` takes no `x`", "Leave it out."),
        (["resolve"], "PROFILE", "`omnicfg resolve --help`"),
        (["validate", ""], "`PATH` is empty", "Give it a value, or leave it out."),
        (["resolve", "qwen3_tts", "--set", "stages.٣.seed=1"], "names no setting of a stage", "Write `stages.ID.KEY`"),
        (["resolve", "qwen3_omni_mo"], "no profile `qwen3_omni_mo`", "Did you mean `qwen3_omni_moe`?"),
        (["resolve", "qwen3_tts", "--platform", "cud"], "unknown platform `cud`", "Did you mean `cuda`?"),
        (["resolve", "qwen3_tts", "--set", "x"], "`x` has no value", "--set stages.0.max_num_seqs=8"),
    ],
)
def test_trouble_is_exit_code_2_and_leaves_standard_output_empty(
    run: Run, words: list[str], message: str, help: str
) -> None:
    result = run(*words)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert help in result.err


def test_a_directory_that_is_gone_is_told_whatever_the_command(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    results = {name: run(name) for name in command_names()}
    assert {result.code for result in results.values()} == {2}
    assert all("error: the current directory has been removed\n" in result.err for result in results.values())
    assert run("--version").code == 0


def test_a_command_that_is_interrupted_while_it_is_imported_ends_without_a_word() -> None:
    code = (
        "import sys\n"
        "class Interrupts:\n"
        "    def find_spec(self, name, *more):\n"
        "        if name == 'omnicfg.cli': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupts())\n"
        "from omnicfg.__main__ import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def test_it_is_a_module_of_python_too() -> None:
    command = [sys.executable, "-m", "omnicfg", "--version"]
    assert subprocess.run(command, capture_output=True, check=True, cwd=ROOT).stdout == b"omnicfg 0.1.0\n"


def omnicfg(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "omnicfg.cli", *words]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **environment}, cwd=ROOT
    )


@pytest.mark.parametrize(
    ("words", "ends"),
    [
        ("resolve minicpmo_4_5_turn.yaml --platform npu", 0),
        ("explain qwen3_tts stages.0.max_num_seqs", 0),
        ("validate qwen3_tts", 0),
        ("diff qwen3_tts qwen3_tts_v1", 1),
        ("profiles", 0),
        ("bench --help", 0),
    ],
)
def test_plain_output_imports_nothing_heavy(words: str, ends: int) -> None:
    code = (
        f"import sys; sys.argv[1:] = {words.split()!r}\n"
        "from omnicfg.cli import main\n"
        "try: main()\n"
        f"finally: print(sorted({HEAVY!r} & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stderr) == (ends, "[]\n")


def test_a_reader_that_goes_away_is_no_finding_and_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "omnicfg.cli", "profiles"]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, check=False, cwd=ROOT)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_output_that_cannot_be_written_is_trouble() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "omnicfg.cli", "profiles"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            cwd=ROOT,
        )
    assert (done.returncode, done.stderr) == (2, "error: the output cannot be written: No space left on device\n")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", [["resolve", "qwen3_omni_moe"], ["schema", "vllm", "--format", "json"]])
def test_output_that_is_cut_off_is_trouble(tmp_path: Path, words: list[str], unbuffered: str) -> None:
    """Python takes a part for the whole where it is told not to buffer, as in many containers."""
    out, limit = tmp_path / "out", 4096
    with out.open("wb") as stream:
        done = subprocess.run(
            [sys.executable, "-m", "omnicfg.cli", *words],
            stdout=stream,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            cwd=ROOT,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
        )
    assert (done.returncode, done.stderr) == (2, "error: the output cannot be written: File too large\n")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_pipe_that_does_not_wait_gets_all_of_the_output(unbuffered: str) -> None:
    """As a parent that is written for events leaves it to its children."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    command = [sys.executable, "-m", "omnicfg.cli", "schema", "vllm", "--format", "json"]
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with subprocess.Popen(command, stdout=write, stderr=subprocess.PIPE, cwd=ROOT, env=environment) as process:
        os.close(write)
        with open(read, "rb") as stream:  # noqa: PTH123  # a descriptor
            found = stream.read()
    assert process.returncode == 0
    assert json.loads(found)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("words", [["reslove"], ["profiles"], ["explain", "qwen3_tts", "stages.0.max_num_seq"]])
def test_where_nothing_can_be_told_the_exit_code_still_says_it(words: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "omnicfg.cli", *words]
        assert subprocess.run(command, stdout=full, stderr=full, check=False, cwd=ROOT).returncode == 2


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (FileNotFoundError(2, "No usable temporary directory found in ['/tmp']"), "No usable temporary directory"),
        (PermissionError(13, "Permission denied", "/data/x.json"), "`/data/x.json`: Permission denied"),
        (OSError(28, "No space left on device", "/tmp/x"), "`/tmp/x`: No space left on device"),
    ],
)
def test_what_the_machine_refuses_is_trouble_in_a_line(
    run: Run, monkeypatch: pytest.MonkeyPatch, error: OSError, said: str
) -> None:
    def refuse() -> NoReturn:
        raise error

    monkeypatch.setattr("omnicfg.catalog.library.library", refuse)
    result = run("profiles")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"error: {said}")
    assert result.err.count("\n") == 1


@pytest.mark.parametrize(("words", "code"), [("profiles", 0), ("reslove", 2)])
def test_closed_streams_lose_the_output_and_nothing_else(words: str, code: int) -> None:
    command = f'exec "{sys.executable}" -m omnicfg.cli {words} >&- 2>&-'
    assert subprocess.run(["sh", "-c", command], check=False, cwd=ROOT).returncode == code


def test_a_terminal_without_unicode_gets_escapes(tmp_path: Path) -> None:
    (tmp_path / "名.yaml").write_text("名: 1\n", encoding="utf-8")
    done = omnicfg("validate", str(tmp_path / "名.yaml"), PYTHONIOENCODING="ascii")
    assert done.returncode == 1
    assert "\\u540d" in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_where_no_lines_can_be_drawn_others_take_their_place(encoding: str) -> None:
    done = omnicfg("graph", "qwen3_tts", PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\n|-- stage 0 qwen3_tts" in done.stdout
    assert "\n|   `-- to stage 1 code2wav" in done.stdout
    assert "\\u" not in done.stdout
