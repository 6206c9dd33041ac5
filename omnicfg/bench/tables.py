"""A report as tables: in columns for a terminal, in Markdown for a review, in the layout of the published figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Final

from omnicfg.bench.report import RUNNING, memory_of
from omnicfg.report.table import code_span, render_markdown, render_table
from omnicfg.report.terminal import Style, one_line, printable
from omnicfg.wording import counted

_TIMES: Final = ("ttft", "tpot", "ttfp")


def text(report: Mapping[str, Any], style: Style, width: int | None) -> str:
    """The report for a terminal."""
    parts = [
        f"{_title(report, arm)}\n" + render_table(rows, style, width, headers=_headers(report, arm))
        for arm, rows in _tables(report)
    ]
    memory = render_table(list(_memory(report)), style, width, headers=_MEMORY)
    return "\n".join([*parts, memory])


def markdown(report: Mapping[str, Any], pictures: Sequence[str] = ()) -> str:
    """The report for a review: what was measured, where and how, then the tables, and pictures by their paths."""
    parts = [f"# {report['profile']}: {', '.join(report['arms'])}\n\n{_about(report)}"]
    parts += [
        f"## {_title(report, arm)}\n\n" + render_markdown(rows, _headers(report, arm)) for arm, rows in _tables(report)
    ]
    parts.append("## Memory\n\n" + render_markdown(_memory(report), _MEMORY))
    parts += [f"![{PurePosixPath(picture).stem}]({picture})\n" for picture in pictures]
    return printable("\n".join(parts))


def _tables(report: Mapping[str, Any]) -> Iterator[tuple[str, list[list[str]]]]:
    """Every arm against the baseline; the baseline alone where nothing else is measured yet."""
    told = {arm: _rows(report, arm) for arm in report["arms"]}
    baseline = told.pop(report["baseline"])
    if not any(told.values()):
        told = {report["baseline"]: baseline}
    yield from ((arm, rows) for arm, rows in told.items() if rows)


def _rows(report: Mapping[str, Any], arm: str) -> list[list[str]]:
    return [
        _row(load, report["baseline"], arm, _rounds(report, load["name"], arm))
        for load in report["loads"]
        if arm in load["arms"]
    ]


def _rounds(report: Mapping[str, Any], load: str, arm: str) -> int:
    """In how many rounds an arm was measured; beside the baseline, where there is a measurement of it."""
    of = {name: set[int]() for name in (arm, report["baseline"])}
    for one in report["measurements"]:
        if one["load"] == load and one["arm"] in of:
            of[one["arm"]].add(one["round"])
    return len(of[arm] & of[report["baseline"]] or of[arm])


def _title(report: Mapping[str, Any], arm: str) -> str:
    return arm if arm == report["baseline"] else f"{arm} against {report['baseline']}"


def _headers(report: Mapping[str, Any], arm: str) -> list[str]:
    return [
        "bench",
        "stage-0 hit",
        f"{report['baseline']} (req/s)",
        arm,
        "per-round range",
        "TTFT",
        "TPOT",
        "TTFP",
        "notes",
    ]


def _row(load: Mapping[str, Any], baseline: str, arm: str, rounds: int) -> list[str]:
    ours, base = load["arms"][arm], load["arms"].get(baseline)
    ratio = ours["ratio"]
    return [
        load["name"],
        hits(ours["hit_rate"]),
        "" if base is None else rate(base["requests_per_second"]["median"]),
        change(ratio["median"]) if ratio else "" if arm == baseline else rate(ours["requests_per_second"]["median"]),
        f"{change(ratio['low'])} .. {change(ratio['high'])}" if ratio else "",
        *(_time(ours, name) for name in _TIMES),
        ", ".join(_notes(ours, base, rounds)),
    ]


def _notes(ours: Mapping[str, Any], base: Mapping[str, Any] | None, rounds: int) -> Iterator[str]:
    yield counted(rounds, "round")
    if ours["real_time_factor"] is not None:
        yield f"real-time factor {ours['real_time_factor']:.3f}"
    errors = ours["errors"] + (base["errors"] if base and base is not ours else 0)
    if errors:
        yield counted(errors, "error")


def _time(ours: Mapping[str, Any], name: str) -> str:
    value, ratio = ours[f"{name}_ms"], ours[f"{name}_ratio"]
    if value is None:
        return ""
    shown = f"{value:.1f} ms"
    return shown if ratio is None else f"{shown} ({change(ratio)})"


def hits(spread: Mapping[str, float] | None) -> str:
    """A hit rate, or the range of several."""
    if spread is None:
        return ""
    low, high = f"{spread['low']:.1%}", f"{spread['high']:.1%}"
    return low if low == high else f"{low} .. {high}"


def change(ratio: float) -> str:
    """A ratio as the published figures have it: 1.057 is +5.7%."""
    return f"{ratio - 1:+.1%}"


def rate(value: float) -> str:
    """Requests per second with four digits that mean something."""
    return f"{value:.4g}" if value < 1000 else f"{value:.0f}"


_MEMORY: Final = ("arm", "KV cache (tokens)", "VmRSS of stage 0 (GiB)")


def _memory(report: Mapping[str, Any]) -> Iterator[list[str]]:
    for arm, tokens, resident in memory_of(report):
        yield [arm, "" if tokens is None else f"{tokens:,}", "" if resident is None else f"{resident:.2f}"]


def _about(report: Mapping[str, Any]) -> str:
    lines = [f"- made {report['made']} with {code_span(one_line(report['command']))}"]
    known = ", ".join(f"{name} {report[name]}" for name in ("model", "pipeline", "platform", "engine", "driver"))
    lines.append(f"- {known}")
    for name, arm in report["arms"].items():
        settings = ", ".join(code_span(one_line(setting)) for setting in arm["settings"]) or "the profile as it is"
        asked = "; every request asks for its hidden states" if arm["rows"] else ""
        lines.append(f"- arm {name}: {settings}{'; the first stage alone' if arm['alone'] else ''}{asked}")
    for machine in report["machines"]:
        versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items() if version)
        devices = ", ".join(machine["gpus"]) or f"{machine['cores']} cores of {machine['cpu']}"
        lines.append(f"- on {devices}; {machine['system']}; {versions}")
    servers = "a server that ran already" if report["engine"] == RUNNING else "a fresh server, warmed up"
    lines.append(
        f"- every arm of every round on {servers}; the order of arms turns from round to round; a ratio "
        "is of two measurements of one round, its median and range over the rounds; times are means, "
        "in brackets against the baseline"
    )
    return "\n".join(lines) + "\n"
