"""Two reports side by side: two machines, two versions, or what was measured against what was published."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from omnicfg.bench import published
from omnicfg.bench.form import problem, read_json
from omnicfg.bench.loads import Load
from omnicfg.bench.report import KIND
from omnicfg.bench.store import VERSION
from omnicfg.bench.tables import change, hits, rate
from omnicfg.catalog.capabilities import record_of
from omnicfg.errors import UsageError
from omnicfg.near import did_you_mean

MAX_BYTES: Final = 1 << 26

Report = Mapping[str, Any]


def reports(left: str, right: str) -> tuple[Report, Report]:
    """Both reports: files, folders of ``bench --out``, or published sets. Raises :class:`UsageError`.

    A published set has a table a model: it is that of the other report's, or named (``h20:qwen3-omni``).
    """
    beside = f"Published: {', '.join(published.names())}. "
    files = {name: read_report(name, beside) for name in (left, right) if not _is_published(name)}
    sides = []
    for name, other in ((left, right), (right, left)):
        sides.append(files[name] if name in files else _published(name, files.get(other)))
    return sides[0], sides[1]


def _is_published(name: str) -> bool:
    return name.partition(":")[0] in published.names() and not Path(name).exists()


def _published(name: str, other: Report | None) -> Report:
    which, _, model = name.partition(":")
    if not model and other is not None:
        record = record_of(str(other["pipeline"]))
        model = str(record["model"]) if record else ""
    known = published.models(which)
    if model not in known:
        help = did_you_mean(model, known) or f"`{which}:MODEL` says which: {', '.join(known)}."
        raise UsageError(
            f"`{which}` has no results of " + (f"`{model}`" if model else "a model that is not named"), help
        )
    return published.published(which, model)


def require_measured(name: str) -> None:
    """Raises :class:`UsageError` for the name of a published set: its tables are all that there is of it."""
    if _is_published(name):
        raise UsageError(
            f"`{name}` holds published rates of loads, not the measurements behind them",
            "Name the folder that `omnicfg bench prefix-cache --out` wrote. "
            f"`omnicfg bench compare DIR {name}` holds such a folder against what is published.",
        )


def read_report(name: str, known: str = "") -> Report:
    """The report of a file, or of a folder of ``bench --out``. Raises :class:`UsageError`.

    ``known`` says what else could have been named, where there is something.
    """
    path = _path(Path(name))
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
        document = read_json(path, content) if len(content) <= MAX_BYTES else None
    except OSError as error:
        help = f"{known}A report is a report.json, or the folder that `omnicfg bench prefix-cache --out` wrote."
        raise UsageError(f"`{path}` cannot be read: {error.strerror}", help) from None
    if not isinstance(document, dict) or (document.get("kind"), document.get("version")) != (KIND, VERSION):
        raise UsageError(f"`{path}` is no report of `omnicfg bench prefix-cache`", "It writes one: DIR/report.json.")
    if problem := _wrong(document):
        raise UsageError(f"`{path}` is not what `omnicfg bench` writes: {problem}", "Measure again, or mend it.")
    return document


def is_report(given: Path) -> bool:
    """Whether a file is named, or a folder with a report."""
    return _path(given).is_file()


def _path(given: Path) -> Path:
    return given / "report.json" if given.is_dir() else given


def _wrong(document: Mapping[str, Any]) -> str | None:
    """What keeps a document from being a report."""
    wrong = problem(document)
    return wrong if wrong or document["baseline"] in document["arms"] else "its baseline is none of its arms"


def problem_of(error: Exception) -> str:
    """What is wrong with a report, by what reading it raised."""
    return f"it has no {error}" if isinstance(error, LookupError) else "a value is of another kind"


def _others(report: Report) -> list[str]:
    return [arm for arm in report["arms"] if arm != report["baseline"]]


def headers(left: Report, right: Report) -> list[str]:
    """The columns of :func:`rows`: rates of both baselines, then the gain of every other arm, left and right."""
    gains = [f"{side} {arm}" for side, one in (("A", left), ("B", right)) for arm in _others(one)]
    rates = [f"A {left['baseline']} (req/s)", f"B {right['baseline']} (req/s)"]
    return ["bench", "hit A", "hit B", *rates, "B to A", *gains]


def rows(left: Report, right: Report) -> Iterator[list[str]]:
    """One row for every load that both have, in the left one's order; none where it only has the same name."""
    theirs = {load["name"]: load for load in right["loads"]}
    for load in left["loads"]:
        other = theirs.get(load["name"])
        if other is not None and not _differing(load, other):
            base, base_other = _rate(left, load), _rate(right, other)
            yield [
                str(load["name"]),
                _hit(left, load),
                _hit(right, other),
                "" if base is None else rate(base),
                "" if base_other is None else rate(base_other),
                change(base_other / base) if base and base_other else "",
                *(_gain(load, arm) for arm in _others(left)),
                *(_gain(other, arm) for arm in _others(right)),
            ]


def namesakes(left: Report, right: Report) -> Iterator[str]:
    """The loads that are something else in both under one name, with what makes them so."""
    theirs = {load["name"]: load for load in right["loads"]}
    for load in left["loads"]:
        other = theirs.get(load["name"], load)
        told = [f"{part} {load[part]} and {other[part]}" for part in _differing(load, other)]
        if told:
            yield f"{load['name']} ({', '.join(told)})"


def _differing(load: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """In what two loads differ; what is published has a name only, and other draws of the same load are the same."""
    parts = [one.name for one in fields(Load) if one.name not in ("name", "seed")]
    return [part for part in parts if part in load and part in other and load[part] != other[part]]


def alone(left: Report, right: Report) -> tuple[list[str], list[str]]:
    """The loads that only one of both has."""
    ours, theirs = ([str(load["name"]) for load in one["loads"]] for one in (left, right))
    return [name for name in ours if name not in theirs], [name for name in theirs if name not in ours]


def _rate(report: Report, load: Mapping[str, Any]) -> float | None:
    arm = load["arms"].get(report["baseline"])
    return None if arm is None else float(arm["requests_per_second"]["median"])


def _hit(report: Report, load: Mapping[str, Any]) -> str:
    """The hit rate of the last arm that tells one: the others are on the way there, or have no cache."""
    arms = [report["baseline"], *_others(report)]
    known = [load["arms"][arm]["hit_rate"] for arm in arms if arm in load["arms"]]
    return hits(next((one for one in reversed(known) if one), None))


def _gain(load: Mapping[str, Any], arm: str) -> str:
    told = load["arms"].get(arm)
    if told is None or not told["ratio"]:
        return ""
    ratio = told["ratio"]
    shown = change(ratio["median"])
    if ratio.get("low", ratio["median"]) != ratio.get("high", ratio["median"]):
        shown += f" ({change(ratio['low'])} .. {change(ratio['high'])})"
    return shown if told["ttfp_ratio"] is None else f"{shown}; TTFP {change(told['ttfp_ratio'])}"
