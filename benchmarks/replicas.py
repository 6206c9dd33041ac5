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
import os
import statistics
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import omnicfg
from benchmarks.engine.support import engine_environment
from omnicfg.bench.arms import Arm
from omnicfg.bench.comparison import read_report
from omnicfg.bench.drivers import Task, own
from omnicfg.bench.loads import Load
from omnicfg.bench.metrics import HITS, QUERIES, Watch
from omnicfg.bench.prompts import Vocabulary, prompts_of
from omnicfg.bench.server import started
from omnicfg.bench.setting import HOST, Subject, machine_facts
from omnicfg.bench.simulation.cluster import Outcome, Traffic, simulate
from omnicfg.bench.simulation.figures import Figures, figures
from omnicfg.bench.simulation.trace import calls_of
from omnicfg.cli import run
from omnicfg.models import materialize
from omnicfg.serve.launch import Request
from omnicfg.serve.machine import this_machine
from omnicfg.serve.preflight import free_port
from omnicfg.serve.supervise import Address

ARM = "on"
ROUTINGS = ("round-robin", "prefix-aware")
SETTINGS = ("stages.0.kv_cache_memory_bytes={cache}",)
LOAD = Load("TWO", 512, 64, 8, 0.0, 16, "text", 1, 320, 71)
MEASURED = """\
name,shared_prefix_tokens,own_tokens_mean,output_tokens,range_ratio,prefixes,answer,concurrency,prompts,seed
warm,64,64,4,0.0,1,text,4,8,60
P256_c8,0,256,8,0.0,1,text,8,64,61
P576_c8,0,576,8,0.0,1,text,8,64,62
P576_h89_c8,512,64,8,0.0,1,text,8,128,63
P64_c8,0,64,8,0.0,1,text,8,128,64
DEC64_c8,0,64,64,0.0,1,text,8,32,65
DEC64_c2,0,64,64,0.0,1,text,2,8,66
"""


def main() -> int:
    """Measure, simulate, run; a table, and ``replicas.json``."""
    parser = argparse.ArgumentParser(description="Compare a simulation of two replicas with the two.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cache-bytes", type=int, default=24 * 2**20, help="KV cache of a replica")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    settings = [form.format(cache=options.cache_bytes) for form in SETTINGS]
    loads = options.out / "loads.csv"
    loads.write_text(MEASURED)
    with _server(options.out, settings) as (server, directory, vocabulary):
        words = ["bench", "prefix-cache", "tiny_omni", "--url", server.url, "--arm", ARM, "--loads-file", str(loads)]
        words += ["--out", str(options.out / "one"), *(word for one in settings for word in ("--set", one))]
        real: list[dict[str, dict[str, float]]] = []
        for number in range(1, options.rounds + 1):
            with contextlib.redirect_stdout(io.StringIO()):
                run([*words, "--rounds", str(number)])
            told = figures(read_report(str(options.out / "one")), ARM)
            chosen = {by: _simulated(by, told).chosen for by in ROUTINGS}
            task = Task(LOAD, server, vocabulary, directory, options.out, lambda _: None)
            real.append({by: _two(task, chosen[by]) for by in ROUTINGS[:: 1 if number % 2 else -1]})
    result = _result(told, real, options.out)
    (options.out / "replicas.json").write_text(json.dumps(result, indent=1) + "\n")
    print(table(result))
    return 0


@contextlib.contextmanager
def _server(out: Path, settings: list[str]) -> Any:
    plan = omnicfg.resolve("tiny_omni", overrides=settings)
    directory = materialize("builtin:tiny-omni")
    config = json.loads((directory / "config.json").read_text())
    os.environ |= engine_environment(out, VLLM_SERVER_DEV_MODE="1")
    request = Request(plan, str(directory), "tiny-omni", HOST, free_port(HOST), config=config)
    launch = Subject(Arm(ARM), request, "bundled").launch(request, this_machine(), False)
    with started(launch, Address.of(HOST, request.port), out / "server.log", lambda _: None) as server:
        yield server, directory, Vocabulary.of(directory, config)


def _simulated(by: str, told: Figures) -> Outcome:
    return simulate(Traffic.of(calls_of(LOAD), told.limits.block_tokens), 2, by, told.limits, told.speed)


def _two(task: Task, chosen: tuple[int, ...]) -> dict[str, float]:
    """Both replicas, one after the other."""
    prompts = prompts_of(task.load, task.vocabulary)
    seconds, hits, queries = [], 0.0, 0.0
    for replica in (0, 1):
        share = [prompt for prompt, where in zip(prompts, chosen, strict=True) if where == replica]
        _empty(task.server.watch)
        before = task.server.watch.counters()
        told = own.send(replace(task, load=replace(task.load, concurrency=max(1, len(share)))), share)
        if told["errors"]:
            raise RuntimeError(f"{told['errors']} of {len(share)} requests failed: {told['error_samples']}")
        after = task.server.watch.counters()
        seconds.append(told["seconds"])
        hits += after[HITS] - before[HITS]
        queries += after[QUERIES] - before[QUERIES]
    return {"requests_per_second": round(len(prompts) / max(seconds), 4), "hit_rate": round(hits / queries, 5)}


def _empty(watch: Watch) -> None:
    watch._asked("POST", "/reset_prefix_cache")  # it answers without a body


def _result(told: Figures, real: list[dict[str, dict[str, float]]], out: Path) -> dict[str, Any]:
    runs = {}
    for by in ROUTINGS:
        simulated = _simulated(by, told).to_dict()
        rates = [one[by]["requests_per_second"] for one in real]
        ratios = [simulated["requests_per_second"] / rate for rate in rates]
        runs[by] = {
            "simulated": simulated,
            "real": [one[by] for one in real],
            "rate_ratio": {"median": statistics.median(ratios), "low": min(ratios), "high": max(ratios)},
            "hit_rate_difference": max((simulated["hit_rate"] - one[by]["hit_rate"] for one in real), key=abs),
        }
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": machine_facts(),
        "trace": LOAD.to_dict(),
        "figures": told.to_dict(),
        "runs": runs,
        "measurements": read_report(str(out / "one"))["measurements"],
    }


def table(result: Mapping[str, Any]) -> str:
    """Hit rate and requests per second of both routings, simulated and real."""
    lines = ["routing       hit: simulated   real     req/s: simulated   real (median)   ratio (range)"]
    for by, one in result["runs"].items():
        rates = [run["requests_per_second"] for run in one["real"]]
        ratio = one["rate_ratio"]
        lines.append(
            f"{by:13} {one['simulated']['hit_rate']:14.1%} {one['real'][0]['hit_rate']:7.1%} "
            f"{one['simulated']['requests_per_second']:18.2f} {statistics.median(rates):15.2f}   "
            f"{ratio['median']:.3f} ({ratio['low']:.3f} to {ratio['high']:.3f})"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
