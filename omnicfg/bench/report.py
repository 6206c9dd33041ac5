"""Measurements → a report: medians, and ratios of measurements of the same round with their range."""

from __future__ import annotations

import datetime
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from omnicfg.bench.store import VERSION

KIND: Final = "prefix-cache"
RUNNING: Final = "running server"
"""What stands for the engine where servers were not started by the bench."""
_TIMES: Final = ("ttft_ms", "tpot_ms", "ttfp_ms")

Measurement = Mapping[str, Any]


def report_of(setup: Mapping[str, Any], measurements: Sequence[Measurement]) -> dict[str, Any]:
    """The report as data; ``schemas/bench.schema.json`` describes it. The first arm of the setup is the baseline."""
    arms = list(setup["arms"])
    loads = [
        {**load, "name": name, "arms": _arms(arms, [one for one in measurements if one["load"] == name])}
        for name, load in setup["loads"].items()
    ]
    machines: list[Any] = []
    for one in measurements:
        if one["machine"] not in machines:
            machines.append(one["machine"])
    return {
        "version": VERSION,
        "kind": KIND,
        "made": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": setup["command"],
        **{name: setup[name] for name in ("profile", "pipeline", "platform", "model", "engine", "driver")},
        "baseline": arms[0],
        "arms": setup["arms"],
        "machines": machines,
        "loads": [load for load in loads if load["arms"]],
        "measurements": [dict(one) for one in measurements],
    }


def _arms(arms: Sequence[str], measurements: Sequence[Measurement]) -> dict[str, Any]:
    by_arm = {arm: {one["round"]: one for one in measurements if one["arm"] == arm} for arm in arms}
    base = by_arm[arms[0]]
    return {
        arm: {**_summary(list(rounds.values())), **_ratios(rounds, base if arm != arms[0] else {})}
        for arm, rounds in by_arm.items()
        if rounds
    }


def _summary(measurements: Sequence[Measurement]) -> dict[str, Any]:
    def values(name: str) -> list[Any]:
        return [one[name] for one in measurements if one[name] is not None]

    resident = [one["stage_0"] for one in values("resident_gib") if "stage_0" in one]
    return {
        "rounds": len(measurements),
        "requests_per_second": _range(values("requests_per_second")),
        "hit_rate": _range(values("hit_rate")),
        **{name: _median([times["mean"] for times in values(name)]) for name in (*_TIMES, "real_time_factor")},
        "cache_tokens": min(values("cache_tokens"), default=None),
        "resident_gib": max(resident, default=None),
        "errors": sum(map(failures, measurements)),
    }


def failures(one: Measurement) -> int:
    """Requests of a measurement that failed, and those whose hidden states were asked for and did not come whole."""
    payloads = one["payloads"]
    return int(one["errors"]) + (max(one["completed"] - payloads["complete"], 0) if payloads else 0)


def _ratios(rounds: Mapping[int, Measurement], base: Mapping[int, Measurement]) -> dict[str, Any]:
    """To the baseline, round by round; ``None`` where there is nothing to compare with."""
    shared = sorted(rounds.keys() & base.keys())
    rates = [_quotient(rounds[one]["requests_per_second"], base[one]["requests_per_second"]) for one in shared]
    ratios: dict[str, Any] = {"ratio": _range([rate for rate in rates if rate is not None])}
    for name in _TIMES:
        pairs = [(rounds[one][name], base[one][name]) for one in shared]
        known = [_quotient(ours["mean"], theirs["mean"]) for ours, theirs in pairs if ours and theirs]
        ratios[f"{name.removesuffix('_ms')}_ratio"] = _median([one for one in known if one is not None])
    return ratios


def _quotient(value: float, base: float) -> float | None:
    return value / base if base else None


def _range(values: Sequence[float]) -> dict[str, float] | None:
    if not values:
        return None
    known = {"median": statistics.median(values), "low": min(values), "high": max(values)}
    return {name: round(value, 5) for name, value in known.items()}


def _median(values: Sequence[float]) -> float | None:
    return round(statistics.median(values), 4) if values else None


def memory_of(report: Mapping[str, Any]) -> Iterator[tuple[str, int | None, float | None]]:
    """(arm, tokens in the KV cache, GiB of VmRSS of stage 0 at most), over all loads; arms that are measured."""
    for arm in report["arms"]:
        told = [load["arms"][arm] for load in report["loads"] if arm in load["arms"]]
        if not told:
            continue
        tokens = [one["cache_tokens"] for one in told if one["cache_tokens"] is not None]
        resident = [one["resident_gib"] for one in told if one["resident_gib"] is not None]
        yield arm, min(tokens, default=None), max(resident, default=None)
