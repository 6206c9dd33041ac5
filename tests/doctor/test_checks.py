"""What is told of a machine, and what of it stands in the way."""

from __future__ import annotations

from typing import Any

import pytest

from omnicfg.doctor.checks import Status, sections
from omnicfg.doctor.facts import Facts, Memory
from omnicfg.doctor.nvidia import Driver
from tests.doctor.conftest import GIB, cpu_facts, gpu_facts


def told(found: Facts, status: Status) -> list[str]:
    return [check.what for _, checks in sections(found) for check in checks if check.status is status]


def test_a_machine_as_it_should_be_has_nothing_but_ok(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    found = gpu_facts(140, 139)
    assert told(found, Status.NOTE) == told(found, Status.PROBLEM) == []
    assert "device 1: NVIDIA H200, 141.0 GiB of memory, 139.0 GiB of it free, compute capability 9.0" in told(
        found, Status.OK
    )
    assert [title for title, _ in sections(found)] == ["machine", "devices", "software"]


@pytest.mark.parametrize(
    ("changes", "status", "what"),
    [
        ({"python": "3.15.1"}, Status.NOTE, "not among those that are tested"),
        ({"shared_memory": Memory(2**26, 2**26)}, Status.NOTE, "0.1 GiB of shared memory"),
        ({"shared_memory": None}, Status.NOTE, "there is no /dev/shm"),
        ({"driver": Driver(trouble="`nvidia-smi` fails")}, Status.PROBLEM, "the NVIDIA driver does not answer"),
        ({"driver": Driver()}, Status.NOTE, "no NVIDIA device"),
        ({"omnicfg": None}, Status.NOTE, "only importable"),
        ({"extras": {"bench": ("aiohttp", "numpy")}}, Status.NOTE, "extra bench: without aiohttp, numpy"),
        ({"torch_cuda": (14, 0)}, Status.PROBLEM, "torch is built for CUDA 14.0, and the driver runs CUDA up to 13.0"),
    ],
)
def test_what_is_wrong_is_told_with_what_to_do(changes: dict[str, Any], status: Status, what: str) -> None:
    found = gpu_facts(140, **changes)
    assert any(what in each for each in told(found, status))


def test_hidden_devices_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    found = gpu_facts(140, 140)
    machine = found.machine.__class__(found.machine.vllm, None, ("NVIDIA H200",), ("1",))
    (note,) = told(gpu_facts(140, 140, machine=machine), Status.NOTE)
    assert note == "CUDA_VISIBLE_DEVICES=1 leaves devices 1 to be seen"


def test_a_compiler_is_missed_where_vllm_compiles_for_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert any("no C++ compiler (`no-such-compiler`)" in each for each in told(cpu_facts(), Status.NOTE))
    assert not any("compiler" in each for each in told(gpu_facts(140), Status.NOTE))


def test_every_problem_says_what_to_do() -> None:
    for found in (
        gpu_facts(1, torch_cuda=(14, 0)),
        gpu_facts(driver=Driver(trouble="x")),
        cpu_facts(extras={"a": ("b",)}),
    ):
        for _, checks in sections(found):
            assert all(check.help for check in checks if check.status is Status.PROBLEM)


def test_memory_is_shown_in_gib() -> None:
    assert "128.0 GiB of memory, 100.0 GiB of it free" in told(
        gpu_facts(memory=Memory(128 * GIB, 100 * GIB)), Status.OK
    )
