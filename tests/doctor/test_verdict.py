"""Whether a machine can serve a plan, and why not."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import omnicfg
from omnicfg import models
from omnicfg.doctor.checks import Check, Status
from omnicfg.doctor.facts import Facts, Memory
from omnicfg.doctor.verdict import Model, engine_checks, plan_checks
from omnicfg.serve.machine import Machine, Vllm
from tests.doctor.conftest import cpu_facts, gpu_facts

TINY = Model(models.location("builtin:tiny-omni"), models.config("builtin:tiny-omni"), is_ours=True)

NO_MODEL = Model()


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test's own environment has installed does not count."""
    monkeypatch.setattr("omnicfg.serve.preflight.broken_companions", list)
    monkeypatch.setattr("omnicfg.serve.preflight.plugin_problems", list)


def problems(checks: Any) -> list[str]:
    return [check.what for check in checks if check.status is Status.PROBLEM]


def of(profile: str, found: Facts, engine: str = "vllm-omni", model: Model = NO_MODEL, **more: Any) -> list[Check]:
    return list(plan_checks(omnicfg.resolve(profile, **more), engine, found, model))


@pytest.fixture
def thinker(tmp_path: Path) -> Model:
    """A model directory whose weights take 60 GB."""
    text = {"num_hidden_layers": 48, "hidden_size": 2048, "num_attention_heads": 32, "num_key_value_heads": 4}
    config = {"architectures": ["A"], "thinker_config": {"head_dim": 128, **text}, "talker_config": text}
    (tmp_path / "config.json").write_text(json.dumps(config))
    table = json.dumps({"thinker.w": {"dtype": "BF16", "shape": [30_000_000_000], "data_offsets": [0, 0]}}).encode()
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(table)) + table)
    return Model(tmp_path, config)


def test_engines_can_be_started_where_they_are_installed() -> None:
    assert [list(engine_checks(name, gpu_facts(140))) for name in ("bundled", "vllm-omni")] == [[], []]
    assert list(engine_checks("bundled", cpu_facts())) == []


@pytest.mark.parametrize(
    ("engine", "machine", "what"),
    [
        ("bundled", Machine(None, None, (), ()), "vLLM is not installed"),
        ("bundled", Machine(Vllm("0.31.0", cpu=False), None, ("H200",), ("0",)), "vLLM 0.31.0 is installed"),
        ("bundled", Machine(Vllm("0.32.0", cpu=False), None, (), ()), "no NVIDIA device is visible here"),
        ("vllm-omni", Machine(Vllm("0.30.0", cpu=False), None, ("H200",), ("0",)), "vLLM-Omni is not installed"),
        ("vllm-omni", Machine(Vllm("0.30.0", cpu=True), "0.30.0", (), ()), "runs on devices"),
    ],
)
def test_why_an_engine_cannot_be_started(engine: str, machine: Machine, what: str) -> None:
    (problem,) = problems(engine_checks(engine, gpu_facts(140, machine=machine)))
    assert what in problem


def test_the_tiny_default_is_served_on_the_cpu() -> None:
    assert of("tiny_omni", cpu_facts(), "bundled", TINY) == []


def test_a_device_that_is_not_there_is_told_for_every_stage_that_names_it() -> None:
    assert problems(of("qwen3_omni_moe", gpu_facts(141))) == [
        "stage 1 (talker) runs on device 1; 1 visible here",
        "stage 2 (code2wav) runs on device 1; 1 visible here",
    ]
    assert problems(of("qwen3_omni_moe", gpu_facts(141, 141))) == []


def test_the_bundled_engine_needs_the_devices_of_its_own_stage_only(thinker: Model) -> None:
    found = of("qwen3_omni_moe", gpu_facts(141), "bundled", thinker)
    assert problems(found) == []


@pytest.mark.parametrize("vllm", [Vllm("0.32.0", cpu=False), None], ids=["vllm", "no vllm"])
def test_what_stages_that_speak_miss_is_told_once(thinker: Model, vllm: Vllm | None) -> None:
    assert thinker.config is not None
    config = {**thinker.config, "talker_config": {"speaker_id": {"ethan": 1}, "accept_hidden_layer": 24}}
    found = gpu_facts(141, 1)
    found = replace(found, machine=replace(found.machine, vllm=vllm))
    told = problems(of("qwen3_omni_moe", found, "bundled", thinker._replace(config=config)))
    assert len([what for what in told if "device 1" in what]) == (2 if vllm else 1)


def test_memory_that_is_taken_already_is_missed() -> None:
    (problem,) = problems(of("qwen3_omni_moe", gpu_facts(141, 90)))
    assert problem == "device 1 (NVIDIA H200): 70% of its memory is 98.7 GiB, and 90.0 GiB is free"


def test_a_device_is_found_by_the_name_that_the_environment_gives_it() -> None:
    machine = Machine(Vllm("0.32.0", cpu=False), "0.30.0", ("NVIDIA H200", "NVIDIA H200"), ("GPU-1", "0"))
    (problem,) = problems(of("qwen3_omni_moe", gpu_facts(10, 141, machine=machine)))
    assert problem.startswith("device 1 (NVIDIA H200): 70%")


def test_a_model_that_does_not_fit_is_told(thinker: Model) -> None:
    found = of(
        "qwen3_omni_moe", gpu_facts(141, 141), "vllm-omni", thinker, overrides={"stages.0.gpu_memory_utilization": 0.3}
    )
    (problem,) = problems(found)
    assert "leaves nothing for them" in problem
    assert problems(of("qwen3_omni_moe", gpu_facts(141, 141), "vllm-omni", thinker)) == []


def test_a_request_that_does_not_fit_is_told(thinker: Model) -> None:
    found = of(
        "qwen3_omni_moe", gpu_facts(141, 141), "vllm-omni", thinker, overrides={"stages.0.max_model_len": 2_000_000}
    )
    (problem,) = problems(found)
    assert "less than one request of max_model_len 2,000,000" in problem


def test_without_a_directory_nothing_is_claimed_about_memory() -> None:
    notes = [check for check in of("qwen3_omni_moe", gpu_facts(141, 141)) if check.status is Status.NOTE]
    assert [note.what for note in notes] == ["whether the model fits into memory is not known"]


def test_several_processes_need_shared_memory() -> None:
    (problem,) = problems(of("qwen3_omni_moe", gpu_facts(141, 141, shared_memory=Memory(2**26, 2**26))))
    assert problem == "0.1 GiB of shared memory is free, and 3 processes hand each other tensors there"


def test_other_platforms_are_not_looked_at() -> None:
    found = of("qwen3_tts", gpu_facts(141), platform="npu")
    assert any("devices of npu are not looked at" in check.what for check in found)


def test_what_no_machine_could_is_told_first() -> None:
    assert "does not answer in text" in problems(of("qwen3_tts", gpu_facts(141), "bundled"))[0]
    assert "vLLM-Omni has no pipeline" in problems(of("tiny_omni", gpu_facts(141), "vllm-omni", TINY))[0]
