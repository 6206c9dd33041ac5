"""``omnicfg init``: from options or from answers, whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import omnicfg
from tests.commands.conftest import Run
from tests.terminal import CTRL_C, CTRL_D, Shown, at_terminal

Ask = Callable[..., Shown]


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    """``ask(["init"], ["1", "qwen3_tts"])``: a conversation in an empty directory."""

    def call(words: list[object], typed: list[str], columns: int = 80) -> Shown:
        return at_terminal(words, typed, columns=columns, folder=tmp_path)

    return call


def test_an_overlay_from_options(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    result = run("init", path, "--on", "qwen3_tts", "--set", "stages.0.max_num_seqs=3")
    assert (result.code, result.err) == (0, "")
    assert result.out == f"{path} is written. `omnicfg validate qwen3_tts --overlay {path}` checks it.\n"
    assert omnicfg.resolve("qwen3_tts", overlays=path).to_dict()["stages"][0]["engine_args"]["max_num_seqs"] == 3


@pytest.mark.parametrize(
    "name", ["sp ace.yaml", "new\nline.yaml", "\u540d.yaml", "a'b.yaml", "#.yaml", "esc\x1b[31m.yaml"]
)
def test_odd_names_stay_names(run: Run, tmp_path: Path, name: str) -> None:
    for words in (["--on", "qwen3_tts"], ["--pipeline", "qwen3_tts"]):
        result = run("init", tmp_path / name, "--force", *words)
        assert (result.code, result.err) == (0, "")
        assert "\x1b" not in result.out
        assert omnicfg.resolve("qwen3_tts", overlays=tmp_path / name).pipeline == "qwen3_tts"


def test_a_profile_from_options(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "own.yml"
    result = run("init", path, "--pipeline", "qwen3_tts", "--platform", "npu")
    assert (result.code, result.out) == (0, f"{path} is written. `omnicfg validate {path}` checks it.\n")
    assert run("validate", path).code == 0


def test_a_file_that_is_there_stays_unless_it_is_forced(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text("mine\n")
    result = run("init", path, "--on", "qwen3_tts")
    assert (result.code, path.read_text()) == (2, "mine\n")
    assert "is there already" in result.err
    assert run("init", path, "--on", "qwen3_tts", "--force").code == 0
    assert "On top of qwen3_tts.yaml" in path.read_text()


def test_what_would_be_wrong_is_told_with_its_line_and_not_written(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    setting = "stages.0.gpu_memory_utilization=1.5"
    result = run("init", path, "--pipeline", "qwen3_tts", "--set", setting)
    assert (result.code, result.out) == (1, "")
    assert f"{path}:" in result.err
    assert f"{path} was not written." in result.err
    assert list(tmp_path.iterdir()) == []


def test_a_profile_is_not_replaced_by_an_overlay_on_itself(run: Run, tmp_path: Path) -> None:
    base, own = tmp_path / "base.yaml", tmp_path / "own.yaml"
    base.write_text("pipeline: qwen3_tts\nasync_chunk: false\n")
    own.write_text("base_config: base.yaml\n")
    for on in (base, own):
        result = run("init", base, "--on", on, "--force")
        assert (result.code, base.read_text()) == (2, "pipeline: qwen3_tts\nasync_chunk: false\n")
        assert "is what the overlay is to lie on" in result.err


def test_the_pipeline_of_a_profile_that_names_none_is_named(run: Run, tmp_path: Path) -> None:
    base, own = tmp_path / "base.yaml", tmp_path / "own.yaml"
    base.write_text("async_chunk: false\nstages: [{stage_id: 0}]\n")
    assert "--pipeline" in run("init", own, "--on", base).err
    assert run("init", own, "--on", base, "--pipeline", "qwen3_tts").code == 0
    assert omnicfg.resolve(own).pipeline == "qwen3_tts"
    assert run("validate", own).code == 0


def test_a_directory_that_cannot_be_written_is_trouble(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("omnicfg.files.os.open", refuse)
    result = run("init", tmp_path / "own.yaml", "--on", "qwen3_tts")
    assert (result.code, result.out) == (2, "")
    assert "cannot be written: Permission denied" in result.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "FILE is missing"),
        (["own.yaml"], "it is not said what to write"),
        (["--on", "qwen3_tts"], "FILE is missing"),
        (
            ["own.yaml", "--on", "qwen3_tts", "--pipeline", "voxcpm2"],
            "is a profile of pipeline qwen3_tts, not of voxcpm2",
        ),
        (
            ["own.yaml", "--on", "qwen3_tts", "--set", "pipeline=voxcpm2"],
            "is a profile of pipeline qwen3_tts, not of voxcpm2\n  = help: Leave `--set pipeline` out.",
        ),
        (["own.yaml", "--on", "qwen3_tts", "--pipeline", "x"], "`x`"),
        (["own.yaml", "--on", "qwen3_tt"], "Did you mean `qwen3_tts`?"),
        (["own.yaml", "--pipeline", "qwen3_tt"], "Did you mean `qwen3_tts`?"),
        (["own.yaml", "--pipeline", "qwen3_tts", "--platform", "tpu"], "unknown platform `tpu`"),
        (["own.yaml", "--pipeline", "qwen3_tts", "--set", "x"], "`x` has no value"),
        (["own.yaml", "--on", "qwen3_tts", "--set", "stages.9.devices=0"], "has no stage 9"),
        (["own.yaml", "--pipeline", "qwen3_tts", "--set", "stages.0.max_num_seq=3"], "Did you mean `max_num_seqs`?"),
        (["own.txt", "--on", "qwen3_tts"], "is not the name of a profile"),
        (["nowhere/own.yaml", "--on", "qwen3_tts"], "there is no directory `nowhere`"),
        ([".", "--on", "qwen3_tts"], "`.` is a directory"),
    ],
)
def test_trouble(run: Run, words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("init", *words)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert list(tmp_path.iterdir()) == []


def test_a_conversation_ends_in_an_overlay(ask: Ask, tmp_path: Path) -> None:
    shown = ask(["init"], ["1", "?", "qwen3_tt", "qwen3_tts", "cuda", "own.yaml", "", "5", "2", "0.2", "1", "", ""])
    assert shown.code == 0, shown.text
    for part in ("minicpmo_4_5_turn", "Did you mean `qwen3_tts`?", "Stage 0 (qwen3_tts): requests at once?"):
        assert part in shown.text
    assert "own.yaml is written." in shown.text
    stages = omnicfg.resolve("qwen3_tts", overlays=tmp_path / "own.yaml").to_dict()["stages"]
    args = stages[0]["engine_args"]
    assert (args["max_num_seqs"], args["gpu_memory_utilization"], stages[1]["runtime"]["devices"]) == (5, 0.2, "1")


def test_a_conversation_ends_in_a_profile(ask: Ask, tmp_path: Path) -> None:
    wrong = ["9", "2", "glm_image", "tpu", "", "x.txt", "x.yaml", "a", "1", "0", "8", "2", "0.5", ""]
    shown = ask(["init"], wrong)
    assert shown.code == 0, shown.text
    for part in (
        "`9` is none of the numbers",
        "unknown platform `tpu`",
        "`a` is no list of devices",
        "`2` is no share",
    ):
        assert part in shown.text
    stages = omnicfg.resolve(tmp_path / "x.yaml").to_dict()["stages"]
    assert [stage["runtime"]["devices"] for stage in stages] == ["1", "0"]
    assert stages[0]["engine_args"]["gpu_memory_utilization"] == 0.5


@pytest.mark.parametrize(("key", "code", "told"), [(CTRL_C, 130, ""), (CTRL_D, 2, "nothing was written")])
@pytest.mark.parametrize("before", [[], ["1", "qwen3_tts", "", "own.yaml", "", "3"]])
def test_a_conversation_that_is_broken_off_leaves_nothing(
    ask: Ask, tmp_path: Path, key: str, code: int, told: str, before: list[str]
) -> None:
    shown = ask(["init"], [*before, key])
    assert shown.code == code, shown.text
    assert told in shown.text
    assert "Traceback" not in shown.text
    assert list(tmp_path.iterdir()) == []


def test_only_what_is_not_said_is_asked(ask: Ask) -> None:
    shown = ask(["init", "own.yaml", "--on", "qwen3_tts", "--platform", "npu"], [])
    assert shown.code == 0
    assert "?" not in shown.text


def test_questions_fit_a_narrow_terminal(ask: Ask) -> None:
    shown = ask(["init"], ["1", "?", "qwen3_tts", "", "own.yaml", *[""] * 6], columns=40)
    assert shown.code == 0, shown.text
    typed = shown.text.replace("\x1b[1m", "").replace("\x1b[0m", "")
    assert max(map(len, typed.splitlines()[:-2])) <= 40
