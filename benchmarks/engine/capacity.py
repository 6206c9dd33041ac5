"""What payload rows take away: KV capacity and host memory of one server that has its GPUs to itself.

    python -m benchmarks.engine.capacity OUT [--arm ARM] [--gpus 2] [--tiny]

The dimensions of :mod:`benchmarks.engine.cost`, vLLM's default share of the memory; vLLM's own log says how many tokens
fit. Arms: ``off`` plain vLLM without prefix cache, ``plain`` with it, ``ours`` with rows of layer 24, and on several
GPUs (tensor parallelism, without vLLM's own all-reduce) ``replicated``, whose ranks keep all of a row each instead of
their part. Memory is read after 128 requests with 94% hits, rows delivered. What has been measured is not measured
again. ``--tiny`` tries it out on the CPU.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.engine.cost import OFF, ON, cores_on_cpu, rows_flags, server_environment, server_words
from benchmarks.engine.loads import Load, closed_loop, take
from benchmarks.engine.servers import Server
from benchmarks.engine.support import Results
from benchmarks.engine.thinker import Thinker
from omnicfg.bench.consumer import Consumer
from omnicfg.doctor.nvidia import ask_devices
from omnicfg.engine import memory
from omnicfg.engine.memory import CacheEstimate
from omnicfg.interrupt import interruptible

ARMS: Final = ("ours", "plain", "off")
ARMS_OF_SEVERAL: Final = ("plain", "ours", "replicated")
_WITH_ROWS: Final = ("ours", "replicated")
_CPU_CACHE: Final = 2**30  # as `server_environment` has it
_WEIGHTS: Final = re.compile(r"Model loading took ([\d.]+) GiB")
_GOAL: Final = 0.03


@dataclass(frozen=True)
class Setting:
    """Which model on how many devices."""

    gpus: int
    tiny: bool

    @property
    def thinker(self) -> Thinker:
        return Thinker(self.tiny)

    @property
    def load(self) -> Load:
        load = Load("P4096_h94_c64", 3856, 240, 8, 128)
        return load.tiny() if self.tiny else load

    @property
    def engine_args(self) -> dict[str, Any]:
        """What the estimate is made from."""
        told: dict[str, Any] = {"max_num_batched_tokens": memory.DEFAULT_BATCHED_TOKENS}
        told |= {"dtype": "float32"} if self.tiny else {}
        return told | ({"tensor_parallel_size": self.gpus} if self.gpus > 1 else {})

    def arguments(self, arm: str, folder: Path, socket: Path) -> list[str]:
        """The server's command line."""
        words = server_words(self.thinker.directory(folder), tiny=self.tiny, gpus=self.gpus)
        words += OFF if arm == "off" else ON
        if arm in _WITH_ROWS:
            words += rows_flags(self.thinker, socket, self.engine_args, shards(arm))
        return words

    def name(self, arm: str) -> str:
        """Under which a measurement is kept."""
        return f"capacity-{arm}" if self.gpus == 1 else f"capacity-{arm}-{self.gpus}"


def shards(arm: str) -> int | None:
    """Over how many ranks an arm spreads a row; ``None``: over all."""
    return 1 if arm == "replicated" else None


def main() -> int:
    """Start one server after the other, print what they hold; 1 where an estimate is off."""
    parser = argparse.ArgumentParser(description="Measure KV capacity and host memory.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--arm", action="append", choices=sorted({*ARMS, *ARMS_OF_SEVERAL}), help="only these")
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--tiny", action="store_true", help="a tiny model on the CPU: to try the script out")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    results, setting = Results(options.out), Setting(options.gpus, options.tiny)
    arms = options.arm or (ARMS if options.gpus == 1 else ARMS_OF_SEVERAL)
    with interruptible():
        for arm in arms:
            if not results.done(setting.name(arm)):
                results.write(setting.name(arm), _measure(arm, setting, options.out))
    lines, right = table(results, arms, options.gpus)
    print(*lines, sep="\n")
    return int(not right)


def _measure(arm: str, setting: Setting, folder: Path) -> dict[str, Any]:
    socket, log = folder / f"{setting.name(arm)}.sock", folder / f"{setting.name(arm)}.log"
    arguments = setting.arguments(arm, folder, socket)
    environment = server_environment(folder) | (cores_on_cpu(setting.gpus) if setting.tiny else {})
    with Server(arm, arguments, 8090 + len(arm), log, environment) as server:
        seconds = server.wait_ready(400)
        with Consumer(socket) if arm in _WITH_ROWS else contextlib.nullcontext() as consumer:
            _ask(server, setting, consumer)
            resident = server.resident()
        return {
            "seconds_to_start": round(seconds, 1),
            "cache_tokens": server.cache_tokens(),
            "estimated_tokens": _estimated(arm, setting, log),
            "payload_share": _estimate(arm, setting).payload_share,
            "resident_gib": resident,
            "resident_gib_in_all": round(sum(resident.values()), 3),
        }


def _ask(server: Server, setting: Setting, consumer: Consumer | None) -> None:
    """Put the load on a server, every row taken in where there is a consumer."""
    first, *others = setting.load.bodies("capacity", rows=consumer is not None, vocabulary=setting.thinker.vocabulary)
    asyncio.run(closed_loop(server.url, [first], 1))
    asyncio.run(closed_loop(server.url, others, setting.load.concurrency))
    if consumer is not None:
        take(consumer, dict.fromkeys(consumer.counts(), 0), 1 + len(others))


def _estimate(arm: str, setting: Setting) -> CacheEstimate:
    rows = setting.thinker.payload if arm in _WITH_ROWS else None
    return memory.estimate(setting.thinker.config, setting.engine_args, rows, shards(arm))


def _estimated(arm: str, setting: Setting, log: Path) -> int | None:
    """Tokens that should fit, by the plan's own rule; the weights' size is vLLM's, as there are none on disk."""
    if setting.tiny:
        return _estimate(arm, setting).tokens(_CPU_CACHE)
    weights, devices = _WEIGHTS.search(log.read_text(errors="replace")), ask_devices()
    if weights is None or not devices or devices[0].total is None:
        return None
    bytes_ = int(float(weights[1]) * 2**30)
    left = memory.kv_memory(setting.thinker.config, setting.engine_args, devices[0].total, bytes_)
    return _estimate(arm, setting).tokens(left)


def table(results: Results, arms: Sequence[str], gpus: int) -> tuple[list[str], bool]:
    """A line an arm, beside plain vLLM where that is there; whether all is there and every estimate within 3%."""
    setting = Setting(gpus, tiny=False)
    found = {arm: results.read(setting.name(arm)) for arm in arms if results.done(setting.name(arm))}
    plain = found.get("plain")
    lines = []
    for arm, one in found.items():
        tokens, estimated = one["cache_tokens"], one["estimated_tokens"]
        told = [f"{arm:11}{tokens:>10,} tokens"]
        if plain and arm in _WITH_ROWS:
            told.append(f"{tokens / plain['cache_tokens'] - 1:+.2%} (expected {-one['payload_share']:+.2%})")
        if estimated is not None:
            told.append(f"estimated {estimated:,} ({estimated / tokens - 1:+.2%})")
        told.append(f"{one['resident_gib_in_all']:.2f} GiB of host memory, start {one['seconds_to_start']:.0f} s")
        lines.append(", ".join(told))
    lines += [f"{arm}: missing" for arm in arms if arm not in found]
    close = all(
        one["estimated_tokens"] is not None and abs(one["estimated_tokens"] / one["cache_tokens"] - 1) <= _GOAL
        for one in found.values()
    )
    return lines, close and len(found) == len(arms)


if __name__ == "__main__":
    sys.exit(main())
