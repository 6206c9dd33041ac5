"""Do both drivers measure the same? Our own client and `vllm bench serve` on one server and one load.

    python -m benchmarks.clients OUT [--rounds 6]           (on the CPU, with the tiny model)

Every round measures three times. **In turns**, each has the server to itself, and what the machine does meanwhile tells
on the ratio of their rates. So the server's own clocks are read as well (histograms of ``/metrics``): how much of the
time a client kept it as busy as the load says, and how far its times are off the server's. **At once**, with half
as many requests at a time each, they share every second, whatever the machine does in it.

The prefix cache is off. vLLM's client makes texts of its token ids, which the server's tokenizer reads again: how many
prompt tokens came is told for both.
"""

from __future__ import annotations

import argparse
import datetime
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from benchmarks.tiny import served
from omnicfg.bench.drivers import Task, driver
from omnicfg.bench.loads import Load
from omnicfg.bench.setting import machine_facts

DRIVERS: Final = ("own", "vllm-bench")
LOAD: Final = Load("P256_h0_c4", 0, 256, 16, 0.0, 1, "text", 4, 32, 50002)
WAYS: Final = {"turns": "in turns", "at_once": "at once, half as many at a time each"}
TIMES: Final = ("ttft_ms", "tpot_ms")
_HISTOGRAMS: Final = {
    "e2e_ms": "vllm:e2e_request_latency_seconds",
    "ttft_ms": "vllm:time_to_first_token_seconds",
    "tpot_ms": "vllm:request_time_per_output_token_seconds",
}
_PROMPT_TOKENS: Final = "vllm:prompt_tokens_total"
_RUNNING: Final = "vllm:num_requests_running"
_POLL_S: Final = 0.02
Round = dict[str, dict[str, dict[str, Any]]]


def main() -> int:
    """Measure; a table, and ``clients.json``."""
    parser = argparse.ArgumentParser(description="Compare two clients.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--rounds", type=int, default=6)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with served(options.out, ["stages.0.enable_prefix_caching=false"], "off") as (server, directory, vocabulary):
        task = Task(LOAD, server, vocabulary, directory, options.out, lambda _: None)
        driver("own").drive(task)
        result: dict[str, Any] = {
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "machine": machine_facts(),
            "command": " ".join(["python -m benchmarks.clients", *sys.argv[1:]]),
            "load": LOAD.to_dict(),
            "rounds": [],
        }
        for number in range(1, options.rounds + 1):
            turns = {name: _alone(name, task) for name in DRIVERS[:: 1 if number % 2 else -1]}
            result["rounds"].append({"turns": turns, "at_once": _at_once(task)})
            (options.out / "clients.json").write_text(json.dumps(result, indent=1) + "\n")
            print(f"round {number}\n{table(result)}", flush=True)
    return 0


def _alone(name: str, task: Task) -> dict[str, Any]:
    """What a client tells of the load, and what the server counted and timed meanwhile."""
    before = task.server.watch.counters()
    told = _right(name, driver(name).drive(task))
    after = task.server.watch.counters()
    return {
        **told,
        "prompt_tokens": after[_PROMPT_TOKENS] - before[_PROMPT_TOKENS],
        "server": {name: _mean_ms(histogram, before, after) for name, histogram in _HISTOGRAMS.items()},
    }


def _mean_ms(histogram: str, before: Mapping[str, float], after: Mapping[str, float]) -> float:
    """The mean of what a histogram of seconds took in, in milliseconds."""
    took = {part: after[f"{histogram}_{part}"] - before.get(f"{histogram}_{part}", 0.0) for part in ("sum", "count")}
    return 1000 * took["sum"] / took["count"]


def _at_once(task: Task) -> dict[str, dict[str, Any]]:
    """Both drivers as they are, the second as soon as the first one's requests run: it takes seconds to load vLLM."""
    half = replace(task, load=replace(task.load, concurrency=task.load.concurrency // 2))
    with ThreadPoolExecutor(1) as pool:
        theirs = pool.submit(driver("vllm-bench").drive, half)
        _wait_until(lambda: task.server.watch.counters()[_RUNNING] > 0, theirs)
        own = driver("own").drive(half)
        return {"own": _right("own", own), "vllm-bench": _right("vllm-bench", theirs.result())}


def _wait_until(begun: Callable[[], bool], running: Future[Any]) -> None:
    while not begun() and not running.done():
        time.sleep(_POLL_S)


def _right(name: str, told: dict[str, Any]) -> dict[str, Any]:
    if told["errors"]:
        raise RuntimeError(f"{name}: {told['errors']} requests failed: {told['error_samples']}")
    return told


def table(result: Mapping[str, Any]) -> str:
    """Medians of both, and the ratio of measurements of one round with its range."""
    rounds: list[Round] = result["rounds"]
    lines = []
    for way, told in WAYS.items():
        lines.append(f"{told:36}{'own':>10}{'vllm-bench':>12}   own to vllm-bench, round by round")
        lines += [_line(name, way, rounds, read) for name, read in _figures(way, result["load"]["concurrency"])]
    return "\n".join(lines)


def _figures(way: str, concurrency: int) -> list[tuple[str, Callable[[Mapping[str, Any]], float]]]:
    """What is told of a measurement."""
    figures: list[tuple[str, Callable[[Mapping[str, Any]], float]]] = [
        ("requests/s", lambda one: one["requests_per_second"]),
        *((name.replace("_ms", " (ms)"), _mean(name)) for name in TIMES),
    ]
    if way == "turns":
        figures += [
            ("server's share of the time", lambda one: _busy(one, concurrency)),
            ("TTFT without the server's (ms)", lambda one: one["ttft_ms"]["mean"] - one["server"]["ttft_ms"]),
            ("TPOT to the server's", lambda one: one["tpot_ms"]["mean"] / one["server"]["tpot_ms"]),
            ("prompt tokens", lambda one: one["prompt_tokens"]),
        ]
    return figures


def _mean(name: str) -> Callable[[Mapping[str, Any]], float]:
    return lambda one: float(one[name]["mean"])


def _busy(one: Mapping[str, Any], concurrency: int) -> float:
    """How much of the time the server had as many requests as the client may hold open (Little's law)."""
    return float(one["requests_per_second"] * one["server"]["e2e_ms"] / 1000 / concurrency)


def _line(name: str, way: str, rounds: list[Round], read: Callable[[Mapping[str, Any]], float]) -> str:
    own, theirs = ([read(one[way][driver_]) for one in rounds] for driver_ in DRIVERS)
    ratios = [one / other for one, other in zip(own, theirs, strict=True)]
    spread = f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"
    return f"{name:36}{statistics.median(own):10.3f}{statistics.median(theirs):12.3f}   {spread}"


if __name__ == "__main__":
    sys.exit(main())
