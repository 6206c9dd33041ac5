"""From a report of measurements to what one replica is like: how much it holds, and how long its steps take.

Each measured load is sent through one simulated replica, which counts what its steps are made of. How long each of that
takes is then what explains the measured times best: least squares of the relative errors, nothing taking less than no
time. Which requests a step holds does not depend on how long steps take, as a load keeps so many requests in flight.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from omnicfg.bench.comparison import problem_of
from omnicfg.bench.loads import ANSWERS, MAX_TOKENS, Load
from omnicfg.bench.simulation.cluster import Outcome, Traffic, simulate
from omnicfg.bench.simulation.replica import WORK, Limits, Speed, Work
from omnicfg.bench.simulation.trace import MAX_ROWS, calls_of
from omnicfg.errors import UsageError
from omnicfg.near import did_you_mean

ONE: Final = "round-robin"
"""With a single replica, every routing is the same."""
_ANY: Final = Speed((1.0,) * len(WORK))
_SLOWEST: Final = 1e-6
_FASTEST: Final = 1e6
"""Requests a second, beyond which nothing was measured."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A load, its requests per second and its hit rate, medians over the rounds."""

    load: Load
    rate: float
    hit_rate: float | None


@dataclass(frozen=True, slots=True)
class Fit:
    """A load as it was measured, and as one simulated replica does it."""

    measured: Measured
    simulated: Outcome

    @property
    def error(self) -> float:
        """How far the simulated rate is off, as a share of the measured one."""
        return self.simulated.requests_per_second / self.measured.rate - 1

    def to_dict(self) -> dict[str, Any]:
        ours, theirs = self.simulated, self.measured
        return {
            "load": theirs.load.name,
            "requests_per_second": {"measured": theirs.rate, "simulated": round(ours.requests_per_second, 4)},
            "hit_rate": {"measured": theirs.hit_rate, "simulated": round(ours.hit_rate, 5)},
        }


@dataclass(frozen=True, slots=True)
class Figures:
    """One measured replica."""

    limits: Limits
    speed: Speed
    fits: tuple[Fit, ...]

    @property
    def cache_tokens(self) -> int:
        return self.limits.blocks * self.limits.block_tokens

    def with_cache(self, tokens: int) -> Limits:
        """The same with room for another number of tokens."""
        return replace(self.limits, blocks=tokens // self.limits.block_tokens)

    def to_dict(self) -> dict[str, Any]:
        seconds = dict(zip(WORK, self.speed.seconds, strict=True))
        return {
            "block_tokens": self.limits.block_tokens,
            "cache_tokens": self.cache_tokens,
            "max_num_seqs": self.limits.requests,
            "max_num_batched_tokens": self.limits.step_tokens,
            "seconds": {name: float(f"{value:.4g}") for name, value in seconds.items()},
            **self._told(),
            "fits": [fit.to_dict() for fit in self.fits],
        }

    def _told(self) -> dict[str, float | None]:
        """What people know such a machine by: full steps of short prompts, and steps that answer 1 and all requests."""
        step, prompt, _, answer, _, _ = self.speed.seconds
        full = step + prompt * self.limits.step_tokens
        return {
            "prefill_tokens_per_second": round(self.limits.step_tokens / full, 1) if full else None,
            "decode_step_ms": round(1000 * (step + answer), 3),
            "decode_step_full_ms": round(1000 * (step + answer * self.limits.requests), 3),
        }


def figures(report: Mapping[str, Any], arm: str) -> Figures:
    """What the measurements of an arm say. Raises :class:`UsageError` where they do not say enough."""
    if arm not in report["arms"]:
        hint = did_you_mean(arm, report["arms"]) or f"Its arms: {', '.join(report['arms'])}."
        raise UsageError(f"the report has no arm `{arm}`", hint)
    try:
        limits, loads = _limits(report, arm), list(_loads(report, arm))
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        problem = problem_of(error)
        raise UsageError(f"the report is not what `omnicfg bench` writes: {problem}", "Measure again.") from None
    if not loads:
        raise UsageError(f"no load of arm `{arm}` was measured in text and without errors", "Measure some, or others.")
    traffic = [Traffic.of(calls_of(one.load), limits.block_tokens, one.load.concurrency) for one in loads]
    works = [simulate(one, 1, ONE, limits, _ANY).work for one in traffic]
    speed = Speed(_least(works, [one.load.prompts / one.rate for one in loads]))
    done = [simulate(one, 1, ONE, limits, speed) for one in traffic]
    return Figures(limits, speed, tuple(Fit(one, outcome) for one, outcome in zip(loads, done, strict=True)))


def _loads(report: Mapping[str, Any], arm: str) -> Iterator[Measured]:
    for told in report["loads"]:
        measured = told["arms"].get(arm)
        if not measured or measured["errors"] or told["answer"] != ANSWERS[0]:
            continue
        hit = measured["hit_rate"]
        load = Load(**{one.name: told[one.name] for one in fields(Load)})
        counts = (load.shared_prefix_tokens, load.own_tokens_mean, load.output_tokens, load.prefixes, load.concurrency)
        if (
            not all(0 <= count <= MAX_TOKENS for count in counts)
            or not 0 < load.prefixes <= load.prompts <= MAX_ROWS
            or min(load.shortest, load.output_tokens, load.concurrency) < 1
        ):
            raise ValueError(f"load {load.name}")
        rate = float(measured["requests_per_second"]["median"])
        if rate == 0:
            continue
        if not _SLOWEST <= rate <= _FASTEST:
            raise ValueError(f"load {load.name}")
        yield Measured(load, rate, None if hit is None else float(hit["median"]))


def _limits(report: Mapping[str, Any], arm: str) -> Limits:
    """Raises :class:`UsageError` for what the measured server left to vLLM, and the report does not know."""
    told = report["arms"][arm]["limits"]
    measured = [one for one in report["measurements"] if one["arm"] == arm]
    known = {
        "block_tokens": max((int(one["block_tokens"] or 0) for one in measured), default=0),
        "cache_tokens": min((int(one["cache_tokens"] or 0) for one in measured), default=0),
        "max_num_seqs": int(told.get("max_num_seqs") or 0),
        "max_num_batched_tokens": int(told.get("max_num_batched_tokens") or 0),
    }
    missing = [name for name, value in known.items() if value < 1]
    if missing:
        raise UsageError(
            f"the report does not say of arm `{arm}`: {', '.join(missing)}",
            "Measure with `max_num_seqs` and `max_num_batched_tokens` set, on a server that tells its cache's size.",
        )
    block = known["block_tokens"]
    cached = any(one["queried_tokens"] for one in measured)
    return Limits(block, known["cache_tokens"] // block, known["max_num_seqs"], known["max_num_batched_tokens"], cached)


def _least(works: Sequence[Work], seconds: Sequence[float]) -> Work:
    """The non-negative seconds for one of each of :data:`WORK` with the least relative squared error.

    There are few unknowns: every choice of those that are above zero is tried, and the best that stays above zero is
    the answer.
    """
    import numpy as np

    rows = np.array(works) / np.array(seconds)[:, None]
    scale = np.maximum(rows.max(axis=0), 1e-12)
    best, least = np.zeros(len(WORK)), float("inf")
    for size in range(1, min(len(WORK), len(works)) + 1):
        for chosen in itertools.combinations(range(len(WORK)), size):
            part = (rows / scale)[:, chosen]
            answer, *_ = np.linalg.lstsq(part, np.ones(len(works)), rcond=None)
            error = float(((part @ answer - 1) ** 2).sum())
            if answer.min() >= 0 and error < least - 1e-12:
                least, best = error, np.zeros(len(WORK))
                best[list(chosen)] = answer
    return tuple(float(value) for value in best / scale)
