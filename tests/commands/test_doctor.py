"""``omnicfg doctor``: what it prints, and with which exit code."""

from __future__ import annotations

import pytest

from omnicfg.doctor import facts as module
from omnicfg.doctor.facts import Facts
from omnicfg.doctor.nvidia import Driver
from tests.commands.conftest import Run
from tests.conftest import WriteProfile
from tests.doctor.conftest import TWO_DEVICES, FakeTool, cpu_facts, fake_nvidia_smi, gpu_facts

__all__ = ["fake_nvidia_smi"]


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnicfg.serve.preflight.broken_companions", list)
    monkeypatch.setattr("omnicfg.serve.preflight.plugin_problems", list)


def on(monkeypatch: pytest.MonkeyPatch, found: Facts) -> None:
    monkeypatch.setattr(module, "facts", lambda: found)


def test_on_this_machine_as_it_is(run: Run) -> None:
    result = run("doctor", "--format", "json")
    data = result.data
    assert result.err == ""
    assert result.code == int(not any(data["can_serve"].values()))
    assert {check["subject"] for check in data["checks"]} >= {
        "machine",
        "devices",
        "engine bundled",
        "engine vllm-omni",
    }
    assert data["facts"]["cpus"] >= 1
    assert all(check["help"] for check in data["checks"] if check["status"] == "problem")
    text = run("doctor").out
    assert text.splitlines()[-1].startswith("This machine can")


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("found", "words", "code", "verdict"),
    [
        (gpu_facts(141), [], 0, "This machine can serve with bundled and vllm-omni."),
        (cpu_facts(), [], 0, "This machine can serve with bundled."),
        (cpu_facts(), ["tiny-omni"], 0, "This machine can serve tiny_omni.yaml."),
        (
            gpu_facts(141),
            ["qwen3_omni_moe", "--engine", "vllm-omni"],
            1,
            "This machine cannot serve qwen3_omni_moe.yaml.",
        ),
        (
            gpu_facts(141, 141),
            ["qwen3_omni_moe", "--engine", "vllm-omni"],
            0,
            "This machine can serve qwen3_omni_moe.yaml, as far as can be told.",
        ),
    ],
)
def test_the_verdict_is_the_last_line_and_the_exit_code(
    run: Run, monkeypatch: pytest.MonkeyPatch, found: Facts, words: list[str], code: int, verdict: str
) -> None:
    on(monkeypatch, found)
    result = run("doctor", *words)
    assert (result.code, result.out.splitlines()[-1]) == (code, verdict)
    assert run("doctor", *words, "--format", "json").data["can_serve"] in (
        {"bundled": True, "vllm-omni": not found.machine.serves_on_cpu},
        {f"{words[0].replace('-', '_')}.yaml": not code} if words else {},
    )


@pytest.mark.usefixtures("here")
def test_a_driver_that_fails_is_a_finding(run: Run, fake_nvidia_smi: FakeTool) -> None:
    fake_nvidia_smi("echo broken; exit 9")
    result = run("doctor")
    assert "the NVIDIA driver does not answer: `nvidia-smi` fails (exit code 9): broken" in result.out
    assert result.err == ""


def test_devices_are_listed(run: Run, fake_nvidia_smi: FakeTool) -> None:
    fake_nvidia_smi(TWO_DEVICES)
    out = run("doctor").out
    assert "device 1: NVIDIA H200, 140.4 GiB of memory, 1.0 GiB of it free, compute capability 9.0" in out
    assert "driver 580.95.05, for CUDA up to 13.0" in out


def test_a_profile_with_errors_cannot_be_served_anywhere(run: Run, profile_file: WriteProfile) -> None:
    profile = profile_file("pipeline: tiny_omni\nasync_chunk: false\nstages: [{stage_id: 0, max_num_seq: 1}]\n")
    result = run("doctor", profile)
    assert (result.code, result.out) == (1, "")
    assert "Did you mean `max_num_seqs`?" in result.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere"], "no profile `nowhere`"),
        (["tiny-omni", "--model", "./nowhere"], "there is no model `./nowhere`"),
        (["tiny-omni", "--model", ""], "`--model` is empty"),
        (["tiny-omni", "--platform", "all"], "unknown platform `all`"),
        (["tiny-omni", "--engine", "x"], "`--engine` cannot be `x`"),
        (["tiny-omni", "--model", "builtin:none"], "no built-in model `none`"),
        (["--set", "x=1"], "`doctor` takes no `--set`"),
        (["--root", "."], "`doctor` takes no `--root`"),
        (["--engine", "bundled", "--platform", "cuda"], "`doctor` takes no `--platform` and no `--engine`"),
    ],
)
def test_trouble(run: Run, words: list[str], message: str) -> None:
    result = run("doctor", *words)
    assert (result.code, result.out) == (2, "")
    assert message in result.err


def test_what_a_tool_says_cannot_draw_on_the_terminal(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    on(monkeypatch, cpu_facts(driver=Driver(trouble="\x1b[2Jgone")))
    assert "\\x1b[2Jgone" in run("doctor").out
