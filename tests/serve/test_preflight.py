"""What is known to go wrong is said before anything is started, with what to do about it."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import omnicfg
from omnicfg.diagnostics import Diagnostic
from omnicfg.doctor.nvidia import Device
from omnicfg.errors import OmnicfgError
from omnicfg.serve import preflight
from omnicfg.serve.machine import Machine, Vllm

CPU = Machine(Vllm("0.32.0", cpu=True), None, (), ())
CUDA = Vllm("0.32.0", cpu=False)
H200 = Machine(CUDA, None, ("NVIDIA H200", "NVIDIA H200"), ("0", "1"))


def messages(problems: Iterable[Diagnostic]) -> list[str]:
    return [f"{problem.message} | {problem.help}" for problem in problems]


def test_no_problem_is_no_error() -> None:
    preflight.require([])


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(OmnicfgError) as caught:
        preflight.require([preflight.problem("one"), preflight.problem("two", "do this")])
    assert [problem.message for problem in caught.value.diagnostics] == ["one", "two"]


def test_a_missing_vllm_comes_with_the_command_that_installs_it() -> None:
    [message] = messages(preflight.vllm_problems(Machine(None, None, (), ())))
    assert "vLLM is not installed" in message
    assert "pip install 'omnicfg[cuda]'" in message
    assert "pip install 'omnicfg[cpu]'" in message
    assert "python -m omnicfg.serve.install_cpu" in message


def test_another_version_of_vllm_is_refused() -> None:
    [message] = messages(preflight.vllm_problems(Machine(Vllm("0.33.0", cpu=False), None, (), ())))
    assert message == "vLLM 0.33.0 is installed; the bundled engine runs on 0.32.0 | `pip install 'omnicfg[cuda]'`"


def test_a_torchvision_that_breaks_vllm_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "broken_companions", lambda: ["torchvision"])
    [message] = messages(preflight.vllm_problems(CPU))
    assert "torchvision cannot be imported" in message
    assert "install_cpu --repair" in message


def test_a_sound_installation_has_no_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "broken_companions", list)
    assert messages(preflight.vllm_problems(CPU)) == messages(preflight.vllm_problems(H200)) == []


def test_devices_do_not_count_on_the_cpu() -> None:
    assert messages(preflight.device_problems({0: (7,)}, CPU)) == []


def test_a_device_that_is_there_is_fine() -> None:
    assert messages(preflight.device_problems({0: (0, 1)}, H200)) == []
    assert messages(preflight.device_problems({0: ()}, H200)) == []


def test_a_device_that_is_missing_is_named_with_those_that_are_there() -> None:
    [message] = messages(preflight.device_problems({0: (1, 2)}, H200))
    assert "stage 0 asks for device 2; visible here: 0 (NVIDIA H200), 1 (NVIDIA H200)" in message
    assert "CUDA_VISIBLE_DEVICES" in message


def test_each_stage_whose_device_is_missing_is_named() -> None:
    later, last = preflight.device_problems({0: (0,), 1: (2,), 2: (3,)}, H200)
    assert later.message.startswith("stage 1 asks for device 2")
    assert last.help is not None
    assert "--set 'stages.2.devices=\"0\"'" in last.help


def test_memory_that_others_hold_is_told_with_the_stage_and_the_device() -> None:
    gib = 2**30
    devices = [
        Device(0, "NVIDIA H200", "GPU-a", 140 * gib, 139 * gib, "580", "9.0"),
        Device(1, "NVIDIA H200", "GPU-b", 140 * gib, 2 * gib, "580", "9.0"),
    ]
    stages = omnicfg.resolve("qwen3_omni_moe").stages
    talker, code2wav = messages(preflight.memory_problems(stages, replace(H200, devices=tuple(devices))))
    assert talker.startswith(
        "stage 1 (talker) asks for 60% of device 1 (NVIDIA H200), which is 84.0 GiB, and 2.0 GiB is free"
    )
    assert "--set stages.1.gpu_memory_utilization" in talker
    assert code2wav.startswith("stage 2 (code2wav) asks for 10% of device 1")


def test_memory_of_which_the_driver_says_nothing_is_no_problem() -> None:
    stages = omnicfg.resolve("qwen3_omni_moe").stages
    untold = [Device(number, "GB10", f"GPU-{number}", None, None, "580", "12.1") for number in range(2)]
    assert messages(preflight.memory_problems(stages, replace(H200, devices=tuple(untold)))) == []
    assert messages(preflight.memory_problems(stages, H200)) == []


def test_a_cuda_build_without_any_device_is_told() -> None:
    [message] = messages(preflight.device_problems({0: (0,)}, Machine(CUDA, None, (), ())))
    assert "no NVIDIA device is visible" in message


@pytest.mark.parametrize(
    ("overrides", "machine", "missing"),
    [
        ({"enforce_eager": False}, CPU, True),
        ({"enforce_eager": None}, CPU, True),
        ({"enforce_eager": False, "compilation_config": {"mode": 3}}, CPU, True),
        ({"enforce_eager": True}, CPU, False),
        ({"enforce_eager": False, "compilation_config": {"mode": 0}}, CPU, False),
        ({"enforce_eager": False, "optimization_level": 0}, CPU, False),
        ({"enforce_eager": False}, H200, False),
    ],
)
def test_compiling_for_the_cpu_takes_a_compiler(
    overrides: dict[str, Any], machine: Machine, missing: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = omnicfg.resolve("tiny_omni", overrides={f"stages.0.{name}": value for name, value in overrides.items()})
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = messages(preflight.compiler_problems(plan.stages[0], machine))
    assert [("no C++ compiler here (`g++`)" in message, "enforce_eager=true" in message) for message in found] == [
        (True, True)
    ] * missing
    (tmp_path / "g++").touch(mode=0o755)
    assert messages(preflight.compiler_problems(plan.stages[0], machine)) == []


def test_a_port_in_use_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        [message] = messages(preflight.port_problems("127.0.0.1", port))
    assert f"127.0.0.1:{port} cannot be listened on: Address already in use" in message
    assert f"in use, by process {os.getpid()} (" in message
    assert "--port" in message
    assert messages(preflight.port_problems("127.0.0.1", port)) == []


def test_of_a_host_with_several_addresses_none_may_be_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """`localhost` may be ::1 first, and vLLM listens on 127.0.0.1."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        both = [(socket.AF_INET, (address, port)) for address in ("127.0.0.2", "127.0.0.1")]
        monkeypatch.setattr(preflight, "addresses_of", lambda host, port: both)
        [message] = messages(preflight.port_problems("localhost", port))
        assert f"localhost:{port} cannot be listened on: Address already in use" in message
        absent = [(socket.AF_INET, (address, 0)) for address in ("192.0.2.1", "127.0.0.1")]
        monkeypatch.setattr(preflight, "addresses_of", lambda host, port: absent)
        assert messages(preflight.port_problems("localhost", 0)) == [], "one that is not here does not count"


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
def test_an_address_of_another_machine_is_told(host: str) -> None:
    [message] = messages(preflight.port_problems(host, 0))
    assert f"{host}:0 cannot be listened on" in message


@pytest.mark.parametrize("host", ["a..b", os.fsdecode(b"caf\xe9")])
def test_what_no_machine_can_be_called_is_told(host: str) -> None:
    [message] = messages(preflight.port_problems(host, 0))
    assert message.startswith(f"`{host}` is no name that a machine can have | `--host` takes an address")


def test_a_directory_with_a_config_is_a_model(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert messages(preflight.model_problems(str(tmp_path))) == []


def test_a_directory_without_one_is_not(tmp_path: Path) -> None:
    [message] = messages(preflight.model_problems(str(tmp_path)))
    assert "holds no config.json" in message


@pytest.mark.parametrize(
    "model", ["nowhere", "./no/such", "/no/such/dir", "~/no/such", "~nobody-of-that-name/x", "../up", ""]
)
def test_what_is_neither_directory_nor_id_is_no_model(model: str) -> None:
    [message] = messages(preflight.model_problems(model))
    assert f"there is no model `{model}`" in message


@pytest.mark.parametrize("switch", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
def test_an_id_is_looked_up_in_the_cache_where_the_hub_is_switched_off(
    switch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setenv(switch, "1")
    [message] = messages(preflight.model_problems("Some/Model-1.5"))
    assert f"`Some/Model-1.5` is not in {tmp_path}" in message
    (tmp_path / "models--Some--Model-1.5").mkdir()
    assert messages(preflight.model_problems("Some/Model-1.5")) == []


def test_an_id_is_left_to_the_hub_where_it_can_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for switch in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(switch, raising=False)
    assert messages(preflight.model_problems("Some/Model")) == []
