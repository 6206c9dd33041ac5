"""How long a CUDA graph's kernels are apart, and what work on a second stream does to it.

    python -m benchmarks.engine.boundaries OUT

A graph of 900 small kernels is replayed: alone, with something on another stream before each replay, and alone again.
What a second stream has brought about stays, until another process makes a context on the GPU; so that is done before
every case, to begin as a new process would. Milliseconds of a replay by CUDA events; torch alone, no vLLM, one GPU.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import torch

from benchmarks.engine.support import Results

REPLAYS: Final = 60
_LAYERS: Final = 300
_TOKENS: Final = 32
_WIDTH: Final = 2048
_BLOCKS: Final = 4096
_ANOTHER: Final = "import torch; torch.ones(1, device='cuda'); torch.cuda.synchronize()"


def main() -> int:
    """Measure every case, print it, keep it."""
    parser = argparse.ArgumentParser(description="Measure the gaps between a CUDA graph's kernels.")
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    graph, told = _graph(), dict[str, dict[str, list[float]]]()
    _replayed(graph, _nothing)
    for name, work in _cases().items():
        subprocess.run([sys.executable, "-c", _ANOTHER], check=True)
        told[name] = {
            "before": _replayed(graph, _nothing),
            "beside": _replayed(graph, work),
            "after": _replayed(graph, _nothing),
        }
        print(f"{name:60}", *(f"{when} {_shown(times)}" for when, times in told[name].items()), flush=True)
    Results(options.out).write("boundaries", {"device": torch.cuda.get_device_name(), "ms_a_replay": told})
    return 0


def _cases() -> dict[str, Callable[[], None]]:
    """What is done before each replay: rows as the engine's are, gathered and copied in several ways."""
    cache = torch.randn(_BLOCKS, 1, 16, _WIDTH, device="cuda", dtype=torch.bfloat16)
    rows = torch.empty(_TOKENS, 1, _WIDTH, device="cuda", dtype=torch.bfloat16)
    elsewhere = torch.empty_like(rows)
    host = torch.empty(rows.shape, dtype=rows.dtype).pin_memory()
    places = torch.arange(_TOKENS, device="cuda")
    side, urgent = torch.cuda.Stream(), torch.cuda.Stream(priority=-1)

    def gather() -> None:
        rows.copy_(cache[places, :, 0])

    def to_host() -> None:
        host.copy_(rows, non_blocking=True)

    def from_host() -> None:
        rows.copy_(host, non_blocking=True)

    def within() -> None:
        elsewhere.copy_(rows, non_blocking=True)

    def waits() -> None:
        pass

    def on(stream: torch.cuda.Stream, *steps: Callable[[], None]) -> Callable[[], None]:
        def work() -> None:
            stream.wait_event(torch.cuda.current_stream().record_event())
            with torch.cuda.stream(stream):
                for step in steps:
                    step()

        return work

    def gather_here_copy_there() -> None:
        gather()
        on(side, to_host)()

    def all_here() -> None:
        gather()
        to_host()

    return {
        "nothing": _nothing,
        "another stream waits for an event": on(side, waits),
        "another stream copies to the host": on(side, to_host),
        "another stream copies from the host": on(side, from_host),
        "another stream copies within the GPU": on(side, within),
        "another stream runs a kernel": on(side, gather),
        "an urgent stream runs a kernel": on(urgent, gather),
        "another stream runs a kernel and copies to the host": on(side, gather, to_host),
        "a kernel here, another stream copies to the host": gather_here_copy_there,
        "a kernel and the copy to the host here": all_here,
    }


def _graph() -> torch.cuda.CUDAGraph:
    rows = torch.randn(_TOKENS, _WIDTH, device="cuda", dtype=torch.bfloat16)
    weights = torch.randn(_WIDTH, _WIDTH, device="cuda", dtype=torch.bfloat16)

    def run() -> None:
        state = rows
        for _ in range(_LAYERS):
            state = torch.relu(state @ weights) * 1e-3

    run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph


def _replayed(graph: torch.cuda.CUDAGraph, work: Callable[[], None]) -> list[float]:
    """Milliseconds of each replay, with ``work`` before it."""
    times = []
    for _ in range(REPLAYS):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        work()
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(round(begin.elapsed_time(end), 4))
    return times


def _nothing() -> None:
    """The graph alone."""


def _shown(times: list[float]) -> str:
    return f"{statistics.median(times):.3f} ({min(times):.3f} to {max(times):.3f})"


if __name__ == "__main__":
    sys.exit(main())
