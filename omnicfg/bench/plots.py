"""A report as pictures: ratio by load with its range, throughput against concurrency, memory. PNG and SVG.

matplotlib draws them; it comes with the extra ``bench`` and is imported here alone.
"""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from omnicfg.bench.report import memory_of
from omnicfg.report.terminal import one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KINDS: Final = ("png", "svg")
_CONCURRENCY: Final = re.compile(r"_c\d+$")
_SETTINGS: Final = {"svg.hashsalt": "omnicfg", "font.size": 9, "text.parse_math": False}
_WIDE: Final = 24
"""Characters for which a narrow picture has room in a line."""

Report = Mapping[str, Any]


def draw(report: Report) -> dict[str, bytes]:
    """Every picture that the report has something for, by its file's name. Raises ``ImportError``."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ValueError as error:  # of a setting that it is given by the environment
        raise ImportError(str(error), name="matplotlib") from None

    mpl.use("agg")
    files: dict[str, bytes] = {}
    # Not as somebody's matplotlibrc says, which may ask for programs that are not there; and what it warns of, a sign
    # that its font has not, can be seen.
    usual = {name: value for name, value in mpl.rcParamsDefault.items() if not name.startswith("backend")}
    with warnings.catch_warnings(action="ignore"), mpl.rc_context({**usual, **_SETTINGS}):
        for name, picture in _PICTURES.items():
            figure = Figure(figsize=(8, 4.5), layout="constrained")
            if picture(report, figure):
                files.update(_saved(figure, name))
    return files


def _saved(figure: Figure, name: str) -> Iterator[tuple[str, bytes]]:
    """Without a date in it, the same figures give the same file."""
    for kind in KINDS:
        content = io.BytesIO()
        metadata = {"Date": None} if kind == "svg" else {"Software": None}
        figure.savefig(content, format=kind, dpi=150, metadata=metadata)
        yield f"{name}.{kind}", content.getvalue()


def _ratio(report: Report, figure: Figure) -> bool:
    """Change of requests per second against the baseline, a bar a load, with the range over the rounds."""
    loads = [load for load in report["loads"] if any(_ratio_of(load, arm) for arm in report["arms"])]
    others = [arm for arm in report["arms"] if any(_ratio_of(load, arm) for load in loads)]
    if not loads:
        return False
    longest = max(len(one_line(load["name"])) for load in loads)
    figure.set_size_inches(8 + 0.07 * max(0, longest - _WIDE), 1.4 + 0.28 * len(loads) * len(others))
    axes = figure.add_subplot()
    height = 0.8 / len(others)
    bars = {arm: list(_bars(loads, others, arm, height)) for arm in others}
    for arm, told in bars.items():
        places, ratios = [place for place, _ in told], [ratio for _, ratio in told]
        changes = [ratio["median"] - 1 for ratio in ratios]
        axes.barh(places, changes, height, label=one_line(arm), color=_color(report, arm))
        axes.errorbar(changes, places, xerr=_spread(ratios), fmt="none", ecolor="black", capsize=2)
        for place, ratio in told:
            axes.annotate(f"  {ratio['median'] - 1:+.1%}", (max(ratio["high"] - 1, 0), place), va="center", fontsize=7)
    axes.set_yticks(range(len(loads)), [one_line(load["name"]) for load in loads])
    axes.invert_yaxis()
    axes.axvline(0, color="black", linewidth=0.8)
    axes.margins(x=0.15, y=0.01)
    axes.set_xscale("symlog", linthresh=0.1)
    _percent(axes)
    axes.set_xlabel(f"requests per second against {report['baseline']}, median and range over rounds")
    _legend(figure, others)
    return True


def _legend(figure: Figure, arms: Sequence[str]) -> None:
    """Above all panels, where it hides nothing; in one line, if that has room for it."""
    characters = sum(4 + len(one_line(arm)) for arm in arms)
    columns = len(arms) if characters < 10 * figure.get_figwidth() else 1
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=columns)


def _spread(ranges: Sequence[Mapping[str, float]]) -> list[list[float]]:
    """How far ranges go below and above their medians."""
    return [
        [max(0.0, one["median"] - one["low"]) for one in ranges],
        [max(0.0, one["high"] - one["median"]) for one in ranges],
    ]


def _bars(
    loads: Sequence[Mapping[str, Any]], arms: Sequence[str], arm: str, height: float
) -> Iterator[tuple[float, Mapping[str, float]]]:
    """Where an arm's bars lie, and their ratios. The bars of a load are in the middle of its row, however many."""
    for row, load in enumerate(loads):
        known = [name for name in arms if _ratio_of(load, name)]
        if ratio := _ratio_of(load, arm):
            yield row + (known.index(arm) - (len(known) - 1) / 2) * height, ratio


def _color(report: Report, arm: str) -> str:
    """An arm's own in every picture, whether or not the others are in it."""
    return f"C{list(report['arms']).index(arm)}"


def _percent(axes: Axes) -> None:
    from matplotlib.ticker import NullLocator

    axes.xaxis.set_major_formatter(lambda value, _: f"{100 * value:+.3g}%")
    axes.xaxis.set_minor_locator(NullLocator())


def _ratio_of(load: Mapping[str, Any], arm: str) -> Mapping[str, float] | None:
    told: Mapping[str, float] | None = load["arms"].get(arm, {}).get("ratio")
    return told


def _concurrency(report: Report, figure: Figure) -> bool:
    """Throughput against concurrency, for shapes of load that were measured at several."""
    shapes: dict[str, list[Mapping[str, Any]]] = {}
    for load in filter(lambda load: load["arms"], report["loads"]):
        shapes.setdefault(_CONCURRENCY.sub("", load["name"]), []).append(load)
    several = {shape: loads for shape, loads in shapes.items() if len({load["concurrency"] for load in loads}) > 1}
    if not several:
        return False
    measured = [arm for arm in report["arms"] if any(arm in load["arms"] for load in report["loads"])]
    columns = min(3, len(several))
    lines = math.ceil(len(several) / columns)
    figure.set_size_inches(2.9 * columns + 0.5, 2.4 * lines + 0.4)
    for number, (shape, loads) in enumerate(several.items(), 1):
        axes = figure.add_subplot(lines, columns, number)
        rising = sorted(loads, key=lambda load: int(load["concurrency"]))
        for arm in measured:
            points = [(load["concurrency"], load["arms"][arm]) for load in rising if arm in load["arms"]]
            rates = [told["requests_per_second"] for _, told in points]
            middle, places = [one["median"] for one in rates], [place for place, _ in points]
            look: dict[str, Any] = {"marker": "o", "capsize": 2, "label": one_line(arm), "color": _color(report, arm)}
            axes.errorbar(places, middle, yerr=_spread(rates), **look)
        axes.set_title(one_line(shape))
        rates = [told["requests_per_second"] for load in loads for told in load["arms"].values()]
        axes.set_ylim(0, 1.08 * max(max(one["median"], one["high"]) for one in rates) or 1)
        axes.set_xscale("log", base=2)
        axes.set_xticks(concurrencies := sorted({load["concurrency"] for load in loads}), map(str, concurrencies))
        axes.minorticks_off()
    _legend(figure, measured)
    figure.supxlabel("concurrent requests")
    figure.supylabel("requests per second")
    return True


def _memory(report: Report, figure: Figure) -> bool:
    """What the arms take and hold: VmRSS of stage 0, tokens in the KV cache. What is not known has no bar."""
    told = list(memory_of(report))
    panels: list[tuple[str, str, Mapping[str, float]]] = [
        ("VmRSS of stage 0 (GiB)", "%.2f", {arm: resident for arm, _, resident in told if resident is not None}),
        ("KV cache (tokens)", "{:,.0f}", {arm: tokens for arm, tokens, _ in told if tokens is not None}),
    ]
    known = [panel for panel in panels if panel[2]]
    if not known:
        return False
    for axes, (label, form, values) in zip(figure.subplots(1, len(known), squeeze=False)[0], known, strict=True):
        colors = [_color(report, arm) for arm in values]
        bars = axes.bar(range(len(values)), list(values.values()), width=0.6, color=colors)
        wide = sum(map(len, map(one_line, values))) > _WIDE
        axes.set_xticks(range(len(values)), map(one_line, values), rotation=90 if wide else 0)
        axes.bar_label(bars, fmt=form)
        axes.set_title(label)
        axes.margins(y=0.15)
        axes.yaxis.set_major_formatter("{x:,.10g}")
    return True


_PICTURES: Final[dict[str, Callable[[Report, Figure], bool]]] = {
    "ratio": _ratio,
    "concurrency": _concurrency,
    "memory": _memory,
}
FILES: Final = frozenset(f"{name}.{kind}" for name in _PICTURES for kind in KINDS)
"""What all of them are called."""
