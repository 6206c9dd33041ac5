"""Does a simulation of two replicas come true? Measures one server, simulates two of them, and runs the two.

    python -m benchmarks.replicas OUT [--rounds 3]          (on the CPU, with the tiny model)

All requests of a trace come at once: 16 prefixes, which do not fit into the cache of one replica together, and of which
half do. Which replica gets a request is the routing's choice in the simulation; the client sends it there. Both
routings look at nothing but the order of requests, so two replicas on one machine may run one after the other, each
with the machine to itself, and the slower one tells how long both would have taken. A replica is a server with an
emptied prefix cache.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import io
import json
import statistics
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.tiny import empty, served
from omnicfg.bench.comparison import read_report
from omnicfg.bench.drivers import Task, own
from omnicfg.bench.loads import Load
from omnicfg.bench.metrics import HITS, QUERIES
from omnicfg.bench.prompts import prompts_of
from omnicfg.bench.setting import machine_facts
from omnicfg.bench.simulation.cluster import Outcome, Traffic, simulate
from omnicfg.bench.simulation.figures import Figures, figures
from omnicfg.bench.simulation.trace import calls_of
from omnicfg.cli import run

ARM = "on"
ROUTINGS = ("round-robin", "prefix-aware")
LOAD = Load("TWO", 512, 64, 8, 0.0, 16, "text", 1, 128, 71)
MEASURED = """\
name,shared_prefix_tokens,own_tokens_mean,output_tokens,range_ratio,prefixes,answer,concurrency,prompts,seed
warm,64,64,4,0.0,1,text,4,8,60
P256_c8,0,256,8,0.0,1,text,8,32,61
P576_c8,0,576,8,0.0,1,text,8,32,62
P576_h89_c8,512,64,8,0.0,1,text,8,64,63
P64_c8,0,64,8,0.0,1,text,8,64,64
DEC64_c8,0,64,32,0.0,1,text,8,24,65
DEC64_c2,0,64,32,0.0,1,text,2,6,66
"""


def main() -> int:
    """Measure, simulate, run; a table, and ``replicas.json``."""
    parser = argparse.ArgumentParser(description="Compare a simulation of two replicas with the two.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cache-bytes", type=int, default=24 * 2**20, help="KV cache of a replica")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    settings = [f"stages.0.kv_cache_memory_bytes={options.cache_bytes}"]
    with served(options.out, settings, ARM) as (server, directory, vocabulary):
        task = Task(LOAD, server, vocabulary, directory, options.out, lambda _: None)
        result: dict[str, Any] = {
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "machine": machine_facts(),
            "command": " ".join(["python -m benchmarks.replicas", *sys.argv[1:]]),
            "trace": LOAD.to_dict(),
            "rounds": [],
        }
        for number in range(1, options.rounds + 1):
            result["rounds"].append(_round(number, task, settings))
            (options.out / "replicas.json").write_text(json.dumps(result, indent=1) + "\n")
            print(f"round {number}\n{table(result)}", flush=True)
    return 0


def _round(number: int, task: Task, settings: list[str]) -> dict[str, Any]:
    """One server's figures, then both routings, simulated from them and real: what is compared is minutes apart."""
    folder = task.scratch / f"one-{number}"
    loads = task.scratch / "loads.csv"
    loads.write_text(MEASURED)
    words = ["bench", "prefix-cache", "tiny_omni", "--url", task.server.url, "--arm", ARM, "--loads-file", str(loads)]
    words += ["--rounds", "1", "--out", str(folder), *(word for one in settings for word in ("--set", one))]
    with patch.object(sys, "argv", ["omnicfg", *words]), contextlib.redirect_stdout(io.StringIO()):
        run(words)  # its report tells its command line
    told = figures(read_report(str(folder)), ARM)
    runs = {}
    for by in ROUTINGS[:: 1 if number % 2 else -1]:
        simulated = _simulated(by, told)
        runs[by] = {"simulated": simulated.to_dict(), "real": _two(task, simulated.chosen)}
    return {"figures": told.to_dict(), "runs": runs}


def _simulated(by: str, told: Figures) -> Outcome:
    return simulate(Traffic.of(calls_of(LOAD), told.limits.block_tokens), 2, by, told.limits, told.speed)


def _two(task: Task, chosen: tuple[int, ...]) -> dict[str, float]:
    """Both replicas, one after the other."""
    prompts = prompts_of(task.load, task.vocabulary)
    seconds, hits, queries = [], 0.0, 0.0
    for replica in (0, 1):
        share = [prompt for prompt, where in zip(prompts, chosen, strict=True) if where == replica]
        empty(task.server)
        before = task.server.watch.counters()
        told = own.send(replace(task, load=replace(task.load, concurrency=max(1, len(share)))), share)
        if told["errors"]:
            raise RuntimeError(f"{told['errors']} of {len(share)} requests failed: {told['error_samples']}")
        after = task.server.watch.counters()
        seconds.append(told["seconds"])
        hits += after[HITS] - before[HITS]
        queries += after[QUERIES] - before[QUERIES]
    return {"requests_per_second": round(len(prompts) / max(seconds), 4), "hit_rate": round(hits / queries, 5)}


def table(result: Mapping[str, Any]) -> str:
    """Hit rate and requests per second of both routings, simulated and real; of several rounds the median and range."""
    lines = [f"{'':14}{'hit: simulated':>16}{'real':>8}{'req/s: simulated':>18}{'real':>8}   simulated to real"]
    for by in ROUTINGS:
        runs = [one["runs"][by] for one in result["rounds"]]
        ratios = [run["simulated"]["requests_per_second"] / run["real"]["requests_per_second"] for run in runs]
        hits, rates = (
            [statistics.median(run[side][name] for run in runs) for side in ("simulated", "real")]
            for name in ("hit_rate", "requests_per_second")
        )
        spread = f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"
        lines.append(f"{by:14}{hits[0]:16.1%}{hits[1]:8.1%}{rates[0]:18.2f}{rates[1]:8.2f}   {spread}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
