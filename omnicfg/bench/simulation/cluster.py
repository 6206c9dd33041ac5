"""Several replicas and a router, a request after the other, in simulated time (simpy)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from omnicfg.bench.simulation.blocks import Contents, Naming
from omnicfg.bench.simulation.replica import Job, Limits, Replica, Speed, Work
from omnicfg.bench.simulation.routings import Choice, routing
from omnicfg.bench.simulation.trace import Call
from omnicfg.errors import ServeError, UsageError

if TYPE_CHECKING:
    import simpy

Steps = Generator[Any, Any, None]

MAX_BLOCKS: Final = 20_000_000
"""Of all calls together: each that is like no other takes a quarter of a kilobyte of memory."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Calls with what their blocks hold. At most ``clients`` are in flight; without it, every one comes at its time."""

    calls: tuple[Call, ...]
    contents: tuple[Contents, ...]
    block_tokens: int
    clients: int | None = None

    @classmethod
    def of(cls, calls: Sequence[Call], block_tokens: int, clients: int | None = None) -> Traffic:
        """Raises :class:`UsageError` for more than there could be memory for."""
        blocks = sum(_blocks(call, block_tokens) for call in calls)
        if blocks > MAX_BLOCKS:
            tokens = sum(call.prompt_tokens + call.output_tokens for call in calls)
            raise UsageError(
                f"{len(calls):,} requests of {tokens:,} tokens are too many to be simulated: at most "
                f"{MAX_BLOCKS:,} blocks of {block_tokens} tokens",
                "Simulate a part of them.",
            )
        naming = Naming(block_tokens)
        return cls(tuple(calls), tuple(naming.of(call) for call in calls), block_tokens, clients)

    @property
    def shared(self) -> float:
        """The share of prompt tokens that one boundless cache would know already."""
        seen: set[int] = set()
        known = 0
        for call, contents in zip(self.calls, self.contents, strict=True):
            prompt = contents[: (call.prompt_tokens - 1) // self.block_tokens]
            known += sum(content in seen for content in prompt)
            seen.update(contents)
        return known * self.block_tokens / sum(call.prompt_tokens for call in self.calls)

    @property
    def blocks(self) -> int:
        """With so many blocks none is ever taken for something else."""
        return sum(_blocks(call, self.block_tokens) for call in self.calls)

    @property
    def longest(self) -> int:
        """Tokens of the longest call, its answer included."""
        return max(call.prompt_tokens + call.output_tokens for call in self.calls)


def _blocks(call: Call, block_tokens: int) -> int:
    return math.ceil((call.prompt_tokens + call.output_tokens) / block_tokens)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it: every call's job, every replica, and which calls went where."""

    jobs: tuple[Job, ...]
    replicas: tuple[Replica, ...]
    chosen: tuple[int, ...]
    seconds: float

    @property
    def roomy(self) -> bool:
        """Whether no cache was ever short of anything: with larger ones, all would be the same."""
        return not any(one.short or one.preemptions or one.pool.evicted for one in self.replicas)

    @property
    def hit_rate(self) -> float:
        """The share of prompt tokens that were found when their request was let in, as vLLM counts it."""
        return sum(job.hit_tokens or 0 for job in self.jobs) / sum(job.prompt_tokens for job in self.jobs)

    @property
    def requests_per_second(self) -> float:
        return len(self.jobs) / self.seconds

    @property
    def work(self) -> Work:
        """What all steps of all replicas were made of."""
        return tuple(map(sum, zip(*(replica.work for replica in self.replicas), strict=True)))

    def to_dict(self) -> dict[str, Any]:
        """The figures, times in milliseconds."""
        ttft = sorted(1000 * ((job.first or 0.0) - job.arrived) for job in self.jobs)
        tpot = [
            1000 * ((job.last or 0.0) - (job.first or 0.0)) / (job.answered - 1)
            for job in self.jobs
            if job.answered > 1
        ]
        shares = [self.chosen.count(number) / len(self.jobs) for number in range(len(self.replicas))]
        return {
            "seconds": round(self.seconds, 3),
            "requests_per_second": round(self.requests_per_second, 4),
            "output_tokens_per_second": round(sum(job.answered for job in self.jobs) / self.seconds, 2),
            "hit_rate": round(self.hit_rate, 5),
            "ttft_ms": {
                "mean": round(sum(ttft) / len(ttft), 2),
                "median": round(statistics.median(ttft), 2),
                "p99": round(ttft[math.ceil(0.99 * len(ttft)) - 1], 2),
            },
            "tpot_ms": round(sum(tpot) / len(tpot), 3) if tpot else None,
            "busiest_share": round(max(shares), 4),
            "busy": [round(replica.busy_s / self.seconds, 4) for replica in self.replicas],
            "preemptions": sum(replica.preemptions for replica in self.replicas),
            "evicted_blocks": sum(replica.pool.evicted for replica in self.replicas),
        }


def simulate(traffic: Traffic, replicas: int, by: str, limits: Limits, speed: Speed) -> Outcome:
    """Send the traffic to replicas of one kind, routed by the routing of that name.

    Raises :class:`UsageError` where a call can never be let in, :class:`ServeError` without simpy.
    """
    try:
        import simpy
    except ModuleNotFoundError:
        raise ServeError("simulating needs the Python package `simpy`", "`pip install 'omnicfg[bench]'`") from None
    room = limits.usable * limits.block_tokens
    if traffic.longest > room:
        raise UsageError(
            f"a request takes {traffic.longest} tokens, and the cache has room for {max(room, 0)}",
            f"Give it {(math.ceil(traffic.longest / limits.block_tokens) + 1) * limits.block_tokens} or more with "
            "`--cache-tokens`: one block of them is vLLM's own.",
        )
    # More blocks than are ever filled change nothing, and a pool of them takes memory.
    enough = replace(limits, blocks=min(limits.blocks, traffic.blocks + 1))
    return _Run(simpy.Environment(), traffic, [Replica(enough, speed) for _ in range(replicas)], by).outcome()


class _Run:
    def __init__(self, clock: simpy.Environment, traffic: Traffic, replicas: list[Replica], by: str) -> None:
        import simpy

        self._clock = clock
        self._traffic = traffic
        self._replicas = replicas
        self._choice: Choice = routing(by).start(len(replicas))
        self._wakes = [clock.event() for _ in replicas]
        self._clients = simpy.Container(clock, init=traffic.clients) if traffic.clients else None
        self._jobs: list[Job] = []
        self._chosen: list[int] = []
        self._finished = 0
        self._all = clock.event()

    def outcome(self) -> Outcome:
        for number in range(len(self._replicas)):
            self._clock.process(self._serve(number))
        self._clock.process(self._arrive())
        self._clock.run(self._all)
        return Outcome(tuple(self._jobs), tuple(self._replicas), tuple(self._chosen), self._clock.now)

    def _arrive(self) -> Steps:
        for call, contents in zip(self._traffic.calls, self._traffic.contents, strict=True):
            if call.arrival_s > self._clock.now:
                yield self._clock.timeout(call.arrival_s - self._clock.now)
            if self._clients is not None:
                yield self._clients.get(1)
            tokens = call.prompt_tokens
            in_flight = [replica.in_flight for replica in self._replicas]
            number = self._choice.choose(contents[: tokens // self._traffic.block_tokens], in_flight)
            job = Job(call, contents, tokens, self._clock.now)
            self._jobs.append(job)
            self._chosen.append(number)
            self._replicas[number].waiting.append(job)
            if not self._wakes[number].triggered:
                self._wakes[number].succeed()

    def _serve(self, number: int) -> Steps:
        replica = self._replicas[number]
        while True:
            if not replica.in_flight:
                self._wakes[number] = self._clock.event()
                yield self._wakes[number]
            yield self._clock.timeout(replica.begin())
            finished = len(replica.end(self._clock.now))
            self._finished += finished
            if self._finished == len(self._traffic.calls):
                self._all.succeed()
                return
            if finished and self._clients is not None:
                yield self._clients.put(finished)
