"""What a trace of vLLM's torch profiler says of a GPU's time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.engine.kernels import apart, told


def event(name: str, begin: float, us: float, category: str = "kernel") -> dict[str, Any]:
    return {"ph": "X", "cat": category, "name": name, "ts": begin, "dur": us}


@pytest.fixture
def trace(tmp_path: Path) -> list[Path]:
    events = [
        event("gemm", 100, 30),
        event("scatter", 120, 20),  # on another stream, at the same time
        event("gemm", 160, 40),
        event("copy", 180, 20, "gpu_memcpy"),
        event("cudaLaunchKernel", 90, 500, "cuda_runtime"),
        {"ph": "M", "name": "process_name"},
    ]
    file = tmp_path / "rank0.json"
    file.write_text(json.dumps({"traceEvents": events}))
    return [file]


def test_kernels_are_told_by_request(trace: list[Path]) -> None:
    one = told(trace, requests=2)
    assert (one["kernels_per_request"], one["ms_per_request"]) == (2.0, 0.055)
    assert one["us_per_request"] == {"gemm": 35.0, "scatter": 10.0, "copy": 10.0}


def test_what_runs_at_once_is_busy_once(trace: list[Path]) -> None:
    assert told(trace, requests=1)["busy"] == 0.8  # 40 and 40 of the 100 from the first to the last


def test_long_gaps_are_waits_and_the_others_have_a_median(tmp_path: Path) -> None:
    begins = [0, 10.5, 21.0, 30.0, 70.0]  # half a microsecond twice, a microsecond early, thirty late
    file = tmp_path / "rank0.json"
    file.write_text(json.dumps({"traceEvents": [event("gemm", begin, 10) for begin in begins]}))
    one = told([file], requests=1)
    assert (one["busy"], one["waits"], one["gap_us"]) == (0.6125, 0.375, 0.5)


def test_a_trace_in_which_nothing_ran_is_told(tmp_path: Path) -> None:
    file = tmp_path / "rank0.json"
    file.write_text(json.dumps({"traceEvents": []}))
    with pytest.raises(ValueError, match="nothing ran"):
        told([file], requests=1)


def test_without_a_gpu_operators_are_told(tmp_path: Path) -> None:
    file = tmp_path / "rank0.json"
    file.write_text(json.dumps({"traceEvents": [event("aten::mm", 0, 10, "cpu_op")]}))
    assert told([file], requests=1)["us_per_request"] == {"aten::mm": 10.0}


def test_what_differs_most_comes_first() -> None:
    base, own = {"gemm": 30.0, "only here": 1.0}, {"gemm": 30.5, "scatter": 7.0}
    assert apart(base, own) == {"scatter": 7.0, "only here": -1.0, "gemm": 0.5}
