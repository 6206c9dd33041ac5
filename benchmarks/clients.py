"""Do both drivers measure the same? Our own client and `vllm bench serve`, in turns, on one server and one load.

    python -m benchmarks.clients OUT [--rounds 6]           (on the CPU, with the tiny model)

Before every measurement the prefix cache is emptied. vLLM's client makes texts of its token ids, which the server's
tokenizer reads again: how many prompt tokens came is therefore told for both.
"""

from __future__ import annotations

import argparse
import datetime
import json
import statistics
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.tiny import empty, served
from omnicfg.bench.drivers import Task, driver
from omnicfg.bench.loads import Load
from omnicfg.bench.metrics import HITS, QUERIES
from omnicfg.bench.setting import machine_facts

DRIVERS = ("own", "vllm-bench")
LOAD = Load("P256_h0_c4", 0, 256, 16, 0.0, 1, "text", 4, 32, 50002)
TIMES = ("ttft_ms", "tpot_ms")


def main() -> int:
    """Measure; a table, and ``clients.json``."""
    parser = argparse.ArgumentParser(description="Compare two clients.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--rounds", type=int, default=6)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with served(options.out, [], "on") as (server, directory, vocabulary):
        task = Task(LOAD, server, vocabulary, directory, options.out, lambda _: None)
        _measured("own", task)
        result: dict[str, Any] = {
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "machine": machine_facts(),
            "command": " ".join(["python -m benchmarks.clients", *sys.argv[1:]]),
            "load": LOAD.to_dict(),
            "rounds": [],
        }
        for number in range(1, options.rounds + 1):
            result["rounds"].append({name: _measured(name, task) for name in DRIVERS[:: 1 if number % 2 else -1]})
            (options.out / "clients.json").write_text(json.dumps(result, indent=1) + "\n")
            print(f"round {number}\n{table(result)}", flush=True)
    return 0


def _measured(name: str, task: Task) -> dict[str, Any]:
    empty(task.server)
    before = task.server.watch.counters()
    told = driver(name).drive(task)
    after = task.server.watch.counters()
    if told["errors"]:
        raise RuntimeError(f"{name}: {told['errors']} requests failed: {told['error_samples']}")
    return {**told, "prompt_tokens": after[QUERIES] - before[QUERIES], "hit_tokens": after[HITS] - before[HITS]}


def table(result: Mapping[str, Any]) -> str:
    """Medians of both, and the ratio of measurements of one round with its range."""
    rounds = result["rounds"]
    lines = [f"{'':22}{'own':>10}{'vllm-bench':>12}   own to vllm-bench, round by round"]
    for name in ("requests_per_second", *TIMES, "prompt_tokens", "output_tokens"):
        own, theirs = ([_number(one[driver_], name) for one in rounds] for driver_ in DRIVERS)
        ratios = [one / other for one, other in zip(own, theirs, strict=True)]
        spread = f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"
        lines.append(f"{name:22}{statistics.median(own):10.3f}{statistics.median(theirs):12.3f}   {spread}")
    return "\n".join(lines)


def _number(told: Mapping[str, Any], name: str) -> float:
    return float(told[name]["mean"] if name in TIMES else told[name])


if __name__ == "__main__":
    sys.exit(main())
