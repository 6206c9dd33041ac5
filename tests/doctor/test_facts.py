"""The facts are those of the machine that the test runs on."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata

import pytest

from omnicfg.doctor import facts as module
from omnicfg.doctor.facts import facts
from tests.doctor.conftest import TWO_DEVICES, FakeTool


def test_they_are_this_machines() -> None:
    found = facts()
    assert found.executable == sys.executable
    assert found.cpus == len(os.sched_getaffinity(0))
    assert found.memory is not None
    assert 0 < found.memory.free <= found.memory.total
    assert found.packages.get("torch") == _version("torch")


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def test_devices_are_those_that_a_server_would_see(fake_nvidia_smi: FakeTool, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_nvidia_smi(TWO_DEVICES)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    found = facts()
    assert (found.machine.visible, found.machine.gpus) == (("1",), ("NVIDIA H200",))
    assert len(found.driver.devices) == 2


def test_finding_them_out_imports_nothing_heavy() -> None:
    program = "import sys; from omnicfg.doctor.facts import facts; facts(); print(*sys.modules)"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not {"vllm", "torch", "transformers", "numpy", "jsonschema"} & set(answer.stdout.split())


@pytest.mark.parametrize(
    ("version", "requires", "expected"),
    [
        ("2.13.0+cu129", [], (12, 9)),
        ("2.13.0+cu130", [], (13, 0)),
        ("2.13.0+cpu", ["nvidia-cuda-runtime-cu12==12.8.90"], None),
        ("2.13.0", ["sympy", "nvidia-cuda-runtime-cu12==12.8.90; platform_system == 'Linux'"], (12, 8)),
        ("2.13.0", ["nvidia-cuda-runtime==13.0.96"], (13, 0)),
        ("2.13.0", ["cuda-toolkit[cublas,cudart]==13.0.2; platform_system == 'Linux'"], (13, 0)),
        ("2.13.0", ["sympy"], None),
        (None, [], None),
    ],
)
def test_the_cuda_that_torch_is_built_for(
    version: str | None, requires: list[str], expected: tuple[int, int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata, "requires", lambda name: requires)
    assert module._torch_cuda(version) == expected
