"""``omnicfg export``: what is written where, and what is not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from omnicfg.deploy_targets import names
from tests.commands.conftest import Run
from tests.conftest import WriteProfile
from tests.deploy_targets.secret_profile import SECRETS, TEXT

MODEL = ("--model", "Org/Model")


def words_for(target: str) -> tuple[str, ...]:
    return () if target == "vllm-omni" else MODEL


@pytest.mark.parametrize("target", names())
def test_the_same_profile_gives_the_same_file(run: Run, target: str) -> None:
    words = ("export", "qwen3_omni_moe", "--to", target, *words_for(target))
    assert run(*words).out == run(*words).out != ""


@pytest.mark.parametrize("target", names())
def test_no_credential_is_written(run: Run, target: str, profile_file: WriteProfile) -> None:
    setting = "stages.0.env.SETTING_TOKEN=set-on-the-line"
    result = run("export", profile_file(TEXT), "--to", target, *words_for(target), "--set", setting)
    assert result.code == 0, result.err
    for value in (*SECRETS.values(), "set-on-the-line", "me:pw"):
        assert value not in result.out + result.err
    assert all(f"oc.env:{name}" in result.out for name in [*SECRETS, "SETTING_TOKEN"])


@pytest.mark.parametrize("target", names())
def test_what_came_from_a_secret_variable_is_one_again(
    run: Run, target: str, profile_file: WriteProfile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", "not-to-be-seen")
    text = "pipeline: qwen3_tts\nasync_chunk: false\nstages: [{stage_id: 0, env: {WHERE: '${oc.env:MY_TOKEN}'}}]\n"
    out = run("export", profile_file(text), "--to", target, *words_for(target), "--allow-env", "MY_TOKEN").out
    assert "not-to-be-seen" not in out
    assert "oc.env:WHERE" in out


@pytest.mark.parametrize("target", names())
def test_a_profile_with_errors_is_not_written(
    run: Run, target: str, profile_file: WriteProfile, tmp_path: Path
) -> None:
    profile = profile_file("pipeline: qwen3_tts\nasync_chunk: false\nstages: [{stage_id: 0, max_num_seq: 8}]\n")
    out = tmp_path / "out.yaml"
    result = run("export", profile, "--to", target, *words_for(target), "--out", out)
    assert (result.code, result.out) == (1, "")
    assert "Did you mean `max_num_seqs`?" in result.err
    assert not out.exists()


@pytest.mark.parametrize("text", ["pipeline: qwen3_tts\n", "# Made by hand\n", "\x00"])
def test_no_file_of_another_origin_is_replaced(run: Run, text: str, tmp_path: Path) -> None:
    out = tmp_path / "profile.yaml"
    out.write_text(text)
    result = run("export", "qwen3_tts", "--to", "vllm-omni", "--out", out)
    assert (result.code, out.read_text()) == (2, text)
    assert "did not write it" in result.err


def test_its_own_file_and_an_empty_one_are(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "flat.yaml"
    out.touch()
    for name in ("qwen3_tts", "voxcpm2"):
        assert run("export", name, "--to", "vllm-omni", "--out", out).code == 0
        assert f'pipeline: "{name}"' in out.read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["qwen3_tts"], "--to is missing"),
        (["qwen3_tts", "--to", "helm"], "`--to` cannot be `helm`"),
        (["nowhere", "--to", "k8s", *MODEL], "no profile `nowhere`"),
        (["qwen3_tts", "--to", "k8s"], "has no model of its own"),
        (["qwen3_tts", "--to", "k8s", "--model", "./here"], "cannot find the model `./here`"),
        *(
            (["qwen3_tts", "--to", "k8s", "--model", model], f"cannot find the model `{model}`")
            for model in (" ", "a b/c", "/", "//x", "/a/../..", "/a:b", "C:\\models", "~/m", "-x/y", "gpt2")
        ),
        *(
            (["qwen3_tts", "--to", to, "--model", os.fsdecode(b"/models/caf\xe9")], "of a directory (UTF-8, ")
            for to in ("k8s", "compose")
        ),
        (["tiny_omni", "--to", "k8s", "--engine", "bundled", "--image", "x/y", "--model", "builtin:no"], "no built-in"),
        (["qwen3_tts", "--to", "k8s", "--model", "builtin:tiny-omni"], "only omnicfg makes"),
        (["qwen3_tts", "--to", "k8s", *MODEL, "--name", "A_b"], "`A_b` cannot be the name"),
        (["qwen3_tts", "--to", "k8s", *MODEL, "--name", "a" * 51], "cannot be the name"),
        (["qwen3_tts", "--to", "k8s", *MODEL, "--image", "a b"], "`a b` is not the name of an image"),
        (["qwen3_tts", "--to", "k8s", *MODEL, "--platform", "npu"], "no image for npu"),
        (["qwen3_tts", "--to", "k8s", *MODEL, "--platform", "all"], "unknown platform `all`"),
        (["qwen3_tts", "--to", "k8s", *MODEL, "--port", "0"], "`--port` is 0"),
        (["qwen3_omni_moe", "--to", "k8s", *MODEL, "--engine", "bundled"], "no image of omnicfg is published"),
        (
            [
                "qwen3_tts",
                "--to",
                "k8s",
                *MODEL,
                "--set",
                "stages.0.nnodes=2",
                "--set",
                "stages.0.tensor_parallel_size=2",
            ],
            "several nodes",
        ),
        (["qwen3_tts", "--to", "vllm-omni", "--port", "80"], "`--port` means nothing with `--to vllm-omni`"),
        (["qwen3_tts", "--to", "vllm-omni", "--model", "a/b"], "`--model` means nothing"),
        (["tiny_omni", "--to", "vllm-omni"], "vLLM-Omni has no pipeline tiny_omni"),
        (["tiny_omni", "--to", "compose"], "vLLM-Omni has no pipeline tiny_omni"),
        (["qwen3_tts", "--to", "vllm-omni", "--out", "nowhere/file.yaml"], "there is no directory `nowhere`"),
        (["qwen3_tts", "--to", "vllm-omni", "--out", "/"], "`/` is a directory"),
    ],
)
def test_trouble(run: Run, words: list[str], message: str) -> None:
    result = run("export", *words)
    assert (result.code, result.out) == (2, "")
    assert message in result.err


def test_a_directory_of_this_machine_is_no_id_on_the_hub(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "models" / "mine").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    result = run("export", "qwen3_tts", "--to", "compose", "--model", "models/mine")
    assert (result.code, result.out) == (2, "")
    assert "`models/mine` is a directory here, which a container cannot find" in result.err


def test_the_first_line_is_the_command(run: Run, profile_file: WriteProfile) -> None:
    overlay = profile_file("stages: [{stage_id: 0, max_num_seqs: 2}]\n", "my overlay.yaml")
    out = run("export", "qwen3_tts", "--to", "k8s", *MODEL, "--overlay", overlay, "--port", "80").out
    options = f"--platform cuda --overlay '{overlay}' --model Org/Model --port 80"
    assert out.splitlines()[0] == f"# Made by `omnicfg export qwen3_tts --to k8s {options}`, for vLLM-Omni 0.30.0."
