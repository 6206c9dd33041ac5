"""One replica: vLLM's scheduler, step by step, and how long a step takes.

After ``vllm/v1/core/sched/scheduler.py`` of vLLM 0.32, first come first served: a step goes to the running requests
first, each as many of its tokens as are left to compute and as the step has room for, then to waiting ones; the newest
running request gives way where blocks run out, and begins anew; a waiting one is let in where all of it fits.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from omnicfg.bench.simulation.blocks import Contents, Pool
from omnicfg.bench.simulation.trace import Call

WORK: Final = ("step", "prompt_token", "prompt_attention", "answer_token", "answer_attention", "request")
"""What a step's time is made of: itself, tokens of prompts that it computes, and pairs of those with the tokens before
them; tokens of answers, and pairs likewise; requests that it lets in."""

Work = tuple[float, ...]
"""So much of each of :data:`WORK`."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a replica has room for: tokens in a block, blocks, requests at a time, tokens in a step."""

    block_tokens: int
    blocks: int
    requests: int
    step_tokens: int
    caching: bool = True

    @property
    def usable(self) -> int:
        """Blocks for requests: vLLM keeps one of them for itself."""
        return self.blocks - 1


@dataclass(frozen=True, slots=True)
class Speed:
    """Seconds for one of each of :data:`WORK`."""

    seconds: Work

    def of(self, work: Work) -> float:
        return sum(count * each for count, each in zip(work, self.seconds, strict=True))


@dataclass(slots=True, eq=False)
class Job:
    """A call on its way through a replica; times are seconds after the beginning."""

    call: Call
    contents: Contents
    prompt_tokens: int
    arrived: float
    computed: int = 0
    answered: int = 0
    blocks: list[int] = field(default_factory=list)
    hit_tokens: int | None = None
    first: float | None = None
    last: float | None = None

    @property
    def tokens(self) -> int:
        """What is known of it: its prompt, and what has been answered."""
        return self.prompt_tokens + self.answered


class Replica:
    """A server of the measured kind."""

    def __init__(self, limits: Limits, speed: Speed) -> None:
        self.limits = limits
        self.pool = Pool(limits.usable, limits.caching)
        self.waiting: deque[Job] = deque()
        self.running: list[Job] = []
        self.preemptions = 0
        self.short = False
        """Whether a request ever had to wait for blocks."""
        self.busy_s = 0.0
        self.work: Work = (0.0,) * len(WORK)
        self._speed = speed

    @property
    def in_flight(self) -> int:
        """Requests that it has not answered."""
        return len(self.waiting) + len(self.running)

    def begin(self) -> float:
        """Plan the next step, for which there has to be a request; how many seconds it takes."""
        told = [1.0, *(0.0 for _ in WORK[1:])]
        room = self._go_on(told)
        if room is not None:
            self._let_in(room, told)
        work = tuple(told)
        self.work = tuple(one + other for one, other in zip(self.work, work, strict=True))
        seconds = self._speed.of(work)
        self.busy_s += seconds
        return seconds

    def end(self, now: float) -> list[Job]:
        """The step is done; the jobs that it finished."""
        finished = []
        for job in self.running:
            if job.computed < job.tokens:
                continue
            job.answered += 1
            job.first = job.first if job.first is not None else now
            if job.answered == job.call.output_tokens:
                job.last = now
                self.pool.release(job.blocks)
                finished.append(job)
        if finished:
            self.running = [job for job in self.running if job.last is None]
        return finished

    def _go_on(self, told: list[float]) -> int | None:
        """Running requests first; the tokens that are left of the step, or ``None`` where one had to give way."""
        room, place = self.limits.step_tokens, 0
        gave_way = False
        while place < len(self.running) and room:
            job = self.running[place]
            new = min(job.tokens - job.computed, room)
            while (missing := self._blocks(job.computed + new) - len(job.blocks)) > self.pool.free:
                gave_way = True
                if self._preempt() is job:
                    return None
            job.blocks += self.pool.take(missing) if missing > 0 else []
            self._compute(job, new, told)
            room -= new
            place += 1
        return None if gave_way else room

    def _let_in(self, room: int, told: list[float]) -> None:
        while self.waiting and room and len(self.running) < self.limits.requests:
            job = self.waiting[0]
            known = self.pool.found(job.contents[: (job.tokens - 1) // self.limits.block_tokens])
            hit = len(known) * self.limits.block_tokens
            if self._blocks(job.tokens) - len(known) + self.pool.idle(known) > self.pool.free:
                self.short = True
                return
            self.waiting.popleft()
            self.running.append(job)
            if job.hit_tokens is None:
                job.hit_tokens = hit
            self.pool.use(known)
            new = min(job.tokens - hit, room)
            job.computed = hit
            job.blocks = [*known, *self.pool.take(self._blocks(hit + new) - len(known))]
            told[5] += 1
            self._compute(job, new, told)
            room -= new

    def _preempt(self) -> Job:
        """The newest running request gives its blocks back and waits, before all others, to begin anew."""
        job = self.running.pop()
        self.pool.release(job.blocks)
        job.blocks, job.computed = [], 0
        self.waiting.appendleft(job)
        self.preemptions += 1
        return job

    def _compute(self, job: Job, new: int, told: list[float]) -> None:
        """Count what a job's next tokens cost. Blocks that they fill can be found from now on, in this very step."""
        before, after = job.computed, job.computed + new
        if after > job.prompt_tokens and new == 1:
            told[3] += 1
            told[4] += after
        else:
            told[1] += new
            told[2] += new * (before + after) / 2
        size = self.limits.block_tokens
        for number in range(before // size, after // size):
            self.pool.fill(job.blocks[number], job.contents[number])
        job.computed = after

    def _blocks(self, tokens: int) -> int:
        return math.ceil(tokens / self.limits.block_tokens)
