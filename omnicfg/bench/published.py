"""Published results as data (``profiles/bench/published``): a set's name, and a file a model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from omnicfg.bench.table_file import Row, needed, read_table, real_number
from omnicfg.catalog.paths import profiles_dir

_NEEDED: Final = ("name", "hit_low", "hit_high", "off_requests_per_second", "main", "stack", "stack_low", "stack_high")
_TIMES: Final = ("main_ttfp", "stack_ttfp")
_BASE, _MAIN, _STACK = "off", "main", "stack"


def names() -> dict[str, Path]:
    """The sets of published results, such as ``h20``."""
    return {path.name: path for path in sorted((profiles_dir() / "bench" / "published").iterdir()) if path.is_dir()}


def models(name: str) -> dict[str, Path]:
    """The models that a set has results of."""
    return {path.stem: path for path in sorted(names()[name].glob("*.csv"))}


def published(name: str, model: str) -> dict[str, Any]:
    """A published table in the form of a report, as far as it goes: arms ``off``, ``main`` and ``stack``.

    ``main`` is upstream's cache as it was, ``stack`` with the change that the figures were published for.
    """
    rows = read_table(models(name)[model], _NEEDED, _TIMES)
    return {
        "profile": f"{model}, as published ({name.upper()})",
        "baseline": _BASE,
        "arms": dict.fromkeys((_BASE, _MAIN, _STACK)),
        "loads": [_load(row) for row in rows],
    }


def _load(row: Row) -> dict[str, Any]:
    rate = _number(row, "off_requests_per_second")
    hit = {"low": _number(row, "hit_low"), "high": _number(row, "hit_high")}
    stack = {"low": 1 + _number(row, "stack_low"), "high": 1 + _number(row, "stack_high")}
    arms: Mapping[str, Any] = {
        _BASE: _arm(rate, None, None, None),
        _MAIN: _arm(rate, {"median": 1 + _number(row, "main")}, None, row.get("main_ttfp")),
        _STACK: _arm(rate, {"median": 1 + _number(row, "stack"), **stack}, hit, row.get("stack_ttfp")),
    }
    return {"name": needed(row, "name").text, "arms": arms}


def _arm(base: float, ratio: dict[str, float] | None, hit: dict[str, float] | None, ttfp: Any) -> dict[str, Any]:
    return {
        "requests_per_second": {"median": base * (ratio["median"] if ratio else 1)},
        "hit_rate": hit,
        "ratio": ratio,
        "ttfp_ratio": None if ttfp is None else 1 + ttfp.taken(real_number, "a number"),
    }


def _number(row: Row, name: str) -> float:
    return needed(row, name).taken(real_number, "a number")
