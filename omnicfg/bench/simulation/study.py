"""The same trace on several clusters: what each would do, and which one to choose."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from omnicfg.bench.simulation.cluster import Traffic, simulate
from omnicfg.bench.simulation.figures import ONE, Figures
from omnicfg.bench.simulation.routings import routing
from omnicfg.bench.simulation.trace import Call
from omnicfg.wording import counted

CACHES: Final = (0.25, 0.5, 1.0, 2.0)
"""Sizes of a replica's cache that are tried where none are named, in parts of the measured one."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Replicas with a cache of so many tokens each, and how requests are routed to them."""

    replicas: int
    routing: str
    cache_tokens: int

    def __str__(self) -> str:
        return f"{counted(self.replicas, 'replica')}, {self.routing}, {self.cache_tokens:,} tokens each"


@dataclass(frozen=True, slots=True)
class Run(Cluster):
    """A cluster, and what it did."""

    outcome: Mapping[str, Any]

    @property
    def ttft_ms(self) -> float:
        """Milliseconds within which 99% of the requests had their first token."""
        return float(self.outcome["ttft_ms"]["p99"])

    def to_dict(self) -> dict[str, Any]:
        cluster = {"replicas": self.replicas, "routing": self.routing, "cache_tokens": self.cache_tokens}
        return {**cluster, **self.outcome}


@dataclass(frozen=True, slots=True)
class Study:
    """All runs of a trace, and the goal that a cluster is chosen by: 99% of first tokens within ``ttft_ms``."""

    traffic: Traffic
    figures: Figures
    runs: tuple[Run, ...]
    ttft_ms: int
    left_out: bool
    """Whether there are clusters that were not simulated, as a smaller cache was never short of anything."""

    @property
    def chosen(self) -> Run | None:
        """The fewest replicas that reach the goal, of those the smallest cache, of those the quickest routing."""
        good = [run for run in self.runs if run.ttft_ms <= self.ttft_ms]
        return min(good, key=lambda run: (run.replicas, run.cache_tokens, run.ttft_ms), default=None)

    @property
    def best(self) -> Run:
        """The quickest of all."""
        return min(self.runs, key=lambda run: run.ttft_ms)


def study(
    calls: Sequence[Call],
    figures: Figures,
    replicas: Sequence[int],
    by: Sequence[str],
    cache_tokens: Sequence[int],
    ttft_ms: int,
    each: Callable[[Sequence[Cluster]], Iterable[Cluster]] = iter,
) -> Study:
    """Simulate every combination; one replica needs no router, and a cache that was never short no larger one.

    ``each`` gives the clusters back one by one, and may tell how far it is.
    """
    traffic = Traffic.of(calls, figures.limits.block_tokens)
    sizes = sorted(cache_tokens or _sizes(traffic, figures))
    routed = [(count, name) for count in replicas for name in (by if count > 1 else (ONE,))]
    clusters = [Cluster(count, name, size) for size in sizes for count, name in routed]
    runs: list[Run] = []
    enough: set[tuple[int, str]] = set()
    for one in each(clusters):
        if (one.replicas, one.routing) in enough:
            continue
        outcome = simulate(traffic, one.replicas, one.routing, figures.with_cache(one.cache_tokens), figures.speed)
        runs.append(Run(one.replicas, one.routing, one.cache_tokens, outcome.to_dict()))
        if outcome.roomy:
            enough.add((one.replicas, one.routing))
    return Study(traffic, figures, tuple(runs), ttft_ms, left_out=len(runs) < len(clusters))


def _sizes(traffic: Traffic, figures: Figures) -> list[int]:
    """Parts of the measured cache that have room for the longest request; the measured one in any case."""
    sizes = [round(part * figures.cache_tokens) for part in CACHES]
    roomy = [size for size in sizes if figures.with_cache(size).usable * traffic.block_tokens >= traffic.longest]
    return roomy or [figures.cache_tokens]


def settings(run: Run, figures: Figures, kv_cache_memory_bytes: int | None) -> Iterator[str]:
    """How to have a cluster: the cache of each replica, then routers that exist, with their options."""
    part = run.cache_tokens / figures.cache_tokens
    if kv_cache_memory_bytes is not None:
        yield f"a replica's cache: `kv_cache_memory_bytes: {round(part * kv_cache_memory_bytes)}` of the stage"
    elif part == 1:
        yield f"a replica's cache: as measured, {run.cache_tokens:,} tokens"
    else:
        yield (
            f"a replica's cache: {part:.3g} times the measured memory, by `kv_cache_memory_bytes` of the stage, until "
            f"vLLM logs {run.cache_tokens:,} tokens of KV cache"
        )
    if run.replicas == 1:
        yield "one server, `num_replicas: 1`, no router"
        return
    urls = [f"http://replica-{number}:8000" for number in range(1, run.replicas + 1)]
    for form in routing(run.routing).SETTINGS:
        yield form.format(replicas=run.replicas, urls=",".join(urls), workers=" ".join(urls))
