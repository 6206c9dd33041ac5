"""What payload rows take away: KV capacity and host memory of one server that has the GPU to itself.

    python -m benchmarks.engine.capacity OUT [--arm ARM]

The dimensions of :mod:`benchmarks.engine.cost`, vLLM's default share of the memory; vLLM's own log says how many tokens
fit. Arms: ``off`` plain vLLM without prefix cache, ``plain`` with it, ``ours`` with rows of layer 24.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from benchmarks.engine.cost import (
    COMMON,
    GPU,
    LAYER_24,
    LOADS,
    OFF,
    ON,
    THINKER,
    VOCABULARY,
    closed_loop,
    rows_flags,
    server_environment,
    take,
    write_thinker,
)
from benchmarks.engine.servers import Server
from benchmarks.engine.support import Results
from omnicfg.bench.consumer import Consumer
from omnicfg.engine.memory import estimate

LOAD = LOADS["plain"][0]
ARMS = ("ours", "plain", "off")


def main() -> int:
    """Start one server after the other, put a load on each, print what they hold."""
    parser = argparse.ArgumentParser(description="Measure KV capacity and host memory.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--arm", action="append", choices=ARMS, help="only these")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    results = Results(options.out)
    for arm in options.arm or ARMS:
        if not results.done(f"capacity-{arm}"):
            results.write(f"capacity-{arm}", _measure(arm, options.out))
        print(arm, results.read(f"capacity-{arm}"), flush=True)
    if results.done("capacity-ours") and results.done("capacity-plain"):
        tokens = {arm: results.read(f"capacity-{arm}")["cache_tokens"] for arm in ("ours", "plain")}
        share = estimate(THINKER, {}, LAYER_24).payload_share
        print(f"capacity {tokens['ours'] / tokens['plain'] - 1:+.3%}, estimated {-share:+.3%}")
    return 0


def _measure(arm: str, folder: Path) -> dict[str, object]:
    socket = folder / "capacity.sock"
    cache = {"off": OFF, "plain": ON, "ours": [*ON, *rows_flags(LAYER_24, THINKER, socket)]}[arm]
    arguments = [*COMMON, *GPU, "--model", str(write_thinker(folder / "thinker")), *cache]
    with Server(
        arm, arguments, 8090 + ARMS.index(arm), folder / f"capacity-{arm}.log", server_environment(folder)
    ) as server:
        seconds = server.wait_ready(400)
        bodies = LOAD.bodies("capacity", "rows" if arm == "ours" else arm, VOCABULARY)[: 2 * LOAD.concurrency]
        if arm == "ours":
            with Consumer(socket) as consumer:
                asyncio.run(closed_loop(server.url, bodies, LOAD.concurrency))
                take(consumer, dict.fromkeys(consumer.counts(), 0), len(bodies))
                resident = server.resident()
        else:
            asyncio.run(closed_loop(server.url, bodies, LOAD.concurrency))
            resident = server.resident()
        return {
            "seconds_to_start": round(seconds, 1),
            "cache_tokens": server.cache_tokens(),
            "resident_gib": resident,
            "resident_gib_in_all": round(sum(resident.values()), 3),
        }


if __name__ == "__main__":
    sys.exit(main())
