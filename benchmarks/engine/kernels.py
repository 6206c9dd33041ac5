"""What a server's GPU computes, kernel by kernel, by vLLM's torch profiler.

Requests a second of two servers scatter by some percent from turn to turn; how long their kernels take for the same
requests does not. How much of the time no kernel runs, and in gaps of which length, tells whether the GPU waits for the
CPU.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.engine.servers import Server

_ON_GPU: Final = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
_ON_CPU: Final = frozenset({"cpu_op"})
_STOP_S: Final = 180.0
"""Writing a trace takes a while."""
_NAME: Final = 120
_SHOWN: Final = 40
_WAITS_US: Final = 5.0
"""Kernels of one CUDA graph follow each other faster; a longer gap is a wait for whoever launches the next one."""


def server_words(folder: Path, *, cpu: bool) -> list[str]:
    """What a server's command line has so that it can be traced; until then it costs nothing."""
    config = {
        "profiler": "torch",
        "torch_profiler_dir": str(folder.resolve()),
        "torch_profiler_activities": ["CPU" if cpu else "CUDA"],
        "torch_profiler_with_stack": False,
        "torch_profiler_use_gzip": False,
        "torch_profiler_dump_cuda_time_total": False,
        "ignore_frontend": True,
    }
    return ["--profiler-config", json.dumps(config)]


@contextmanager
def traced(server: Server, folder: Path) -> Iterator[list[Path]]:
    """Trace the server while the body runs; afterwards the files, one a rank, are in the list.

    Raises :class:`RuntimeError` where there is none.
    """
    before, files = set(folder.glob("*.json")), list[Path]()
    server.post("/start_profile")
    try:
        yield files
    finally:
        server.post("/stop_profile", timeout=_STOP_S)
        files += sorted(set(folder.glob("*.json")) - before)
    if not files:
        raise RuntimeError(f"vLLM wrote no trace: see {server.log}")


def told(files: Sequence[Path], requests: int) -> dict[str, Any]:
    """Of the first rank: kernels and their milliseconds a request, the shares of the time in which one runs and in
    which the GPU waits for the next, the median of the gaps between two that follow each other at once, and the kernels
    that take longest, in microseconds a request. Of a CPU operators, those inside of others among them.

    Raises :class:`ValueError` where nothing was traced.
    """
    events = json.loads(files[0].read_text())["traceEvents"]
    spans = _spans(events, _ON_GPU) or _spans(events, _ON_CPU)
    if not spans:
        raise ValueError(f"{files[0]}: nothing ran while it was traced")
    taken, each = dict[str, float](), 1 / requests
    for name, begin, end in spans:
        taken[name] = taken.get(name, 0.0) + end - begin
    longest = sorted(taken, key=lambda name: -taken[name])[:_SHOWN]
    gaps, time = _gaps(spans), max(end for *_, end in spans) - spans[0][1]
    waits = [gap for gap in gaps if gap > _WAITS_US]
    return {
        "kernels_per_request": round(len(spans) * each, 1),
        "ms_per_request": round(sum(taken.values()) / 1000 * each, 4),
        "busy": round(1 - sum(gap for gap in gaps if gap > 0) / time, 4),
        "waits": round(sum(waits) / time, 4),
        "gap_us": round(median(gap for gap in gaps if gap <= _WAITS_US), 3) if len(gaps) > len(waits) else None,
        "us_per_request": {name: round(taken[name] * each, 3) for name in longest},
    }


def apart(base: Mapping[str, float], own: Mapping[str, float], count: int = 4) -> dict[str, float]:
    """The kernels in which two servers differ most, in microseconds a request more than the base."""
    more = {name: own.get(name, 0.0) - base.get(name, 0.0) for name in {**base, **own}}
    return {name: round(more[name], 3) for name in sorted(more, key=lambda name: -abs(more[name]))[:count]}


def _spans(events: Sequence[Mapping[str, Any]], categories: frozenset[str]) -> list[tuple[str, float, float]]:
    """Name, begin and end in microseconds, by begin."""
    found = [
        (str(event["name"])[:_NAME], float(event["ts"]), float(event["ts"]) + float(event["dur"]))
        for event in events
        if event.get("cat") in categories and "dur" in event
    ]
    return sorted(found, key=lambda span: span[1])


def _gaps(spans: Sequence[tuple[str, float, float]]) -> list[float]:
    """From the latest end so far to each begin; negative where one begins before the others have ended."""
    gaps, until = list[float](), spans[0][2]
    for _, begin, end in spans[1:]:
        gaps.append(begin - until)
        until = max(until, end)
    return gaps
