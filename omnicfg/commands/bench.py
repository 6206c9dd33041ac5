"""``omnicfg bench``: what a setting costs and gives, measured on this machine."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from omnicfg import confine
from omnicfg.commands._measuring import Asked, compare_answers, measure_costs
from omnicfg.commands._options import OVERLAYS, PIPELINE, PLATFORM_OR_CUDA, SETTINGS, profile_names, refuse_unread, said
from omnicfg.commands._simulating import CACHES, GOAL, RATE, REPLICAS, ROUTING, TRACE, simulate, write_trace
from omnicfg.commands.serve import MODEL
from omnicfg.errors import UsageError
from omnicfg.parser import Argument, Option
from omnicfg.streams import note
from omnicfg.wording import listed

if TYPE_CHECKING:
    from omnicfg.bench.loads import Load
    from omnicfg.bench.store import Store

HELP = "Measure a prefix cache, see whether it changes answers, compare reports, or simulate replicas."

_ACTIONS: Final = ("prefix-cache", "equality", "report", "compare", "simulate", "trace")


def load_names() -> Iterable[str]:
    """The shipped loads, for a shell to complete."""
    from omnicfg.bench.loads import WARM, read_loads, tables

    return dict.fromkeys(load.name for path in tables().values() for load in read_loads(path) if load.name != WARM)


ACTION = Annotated[
    str, Argument("ACTION", help="prefix-cache, equality, report, compare, simulate, or trace.", words=lambda: _ACTIONS)
]
THINGS = Annotated[
    list[str],
    Argument(
        "PROFILE|REPORT",
        help="A profile; report, simulate: a folder of --out; compare: two of those, or h20, as published.",
        words=profile_names,
    ),
]
LOADS = Annotated[
    list[str] | None, Option("--loads", metavar="NAME,...", help="Only these loads; repeatable.", words=load_names)
]
QUICK = Annotated[bool, Option("--quick", help="Small loads, for a machine without a GPU.")]
LOADS_FILE = Annotated[
    Path | None, Option("--loads-file", metavar="CSV", help="Loads of your own; where it is not the published ones.")
]
ARMS = Annotated[
    list[str] | None,
    Option(
        "--arm",
        metavar="NAME[:KEY=VALUE,...]",
        help="A plan to measure, the first one the baseline; repeatable. Else off and on, the prefix cache of stage 0.",
    ),
]
ROUNDS = Annotated[
    int | None,
    Option("--rounds", metavar="N", min=1, max=1000, help="prefix-cache: how often every arm is measured. Else 3."),
]
ENGINE = Annotated[
    str | None,
    Option(
        "--engine", choices=("bundled", "vllm-omni"), help="omnicfg's own, or an installed vLLM-Omni. Else bundled."
    ),
]
URL = Annotated[
    str | None,
    Option("--url", metavar="URL", help="prefix-cache: a server that runs already, as the one arm of this call."),
]
API_KEY = Annotated[
    str | None,
    Option("--api-key", envvar="OMNICFG_API_KEY", help="prefix-cache: what the server at --url wants to be sent."),
]
DRIVER = Annotated[
    str | None,
    Option(
        "--driver",
        choices=("own", "vllm-bench"),
        help="prefix-cache: who sends requests, omnicfg or `vllm bench serve`. Else own.",
    ),
]
OUT = Annotated[
    Path | None,
    Option(
        "--out",
        metavar="DIR",
        help="Where measurements are kept, else `bench`; what is there is not measured again. "
        "report: where it goes, else to its measurements, if they are there.",
    ),
]
SECONDS = Annotated[
    int | None,
    Option(
        "--seconds", metavar="N", min=1, max=10_000_000, help="prefix-cache: time for this call; the next one goes on."
    ),
]
BATCH_INVARIANT = Annotated[
    bool, Option("--batch-invariant", help="equality: vLLM's batch-invariant kernels, where the GPU has them.")
]
FORMAT = Annotated[
    str | None, Option("--format", choices=("text", "json", "markdown"), help="How to print the report. Else text.")
]

_MEASURING: Final = ("prefix-cache", "equality")
_READ_BY: Final[Mapping[str, tuple[str, ...]]] = {
    "--model": _MEASURING,
    "--loads": (*_MEASURING, "trace"),
    "--quick": (*_MEASURING, "trace"),
    "--loads-file": (*_MEASURING, "trace"),
    "--arm": (*_MEASURING, "simulate"),
    "--rounds": ("prefix-cache",),
    "--engine": _MEASURING,
    "--url": ("prefix-cache",),
    "--api-key": ("prefix-cache",),
    "--driver": ("prefix-cache",),
    "--out": (*_MEASURING, "report"),
    "--seconds": ("prefix-cache",),
    "--platform": (*_MEASURING, "trace"),
    "--overlay": _MEASURING,
    "--set": _MEASURING,
    "--pipeline": (*_MEASURING, "trace"),
    "--root": (*_MEASURING, "trace"),
    "--allow-env": (*_MEASURING, "trace"),
    "--batch-invariant": ("equality",),
    "--trace": ("simulate",),
    "--replicas": ("simulate",),
    "--routing": ("simulate",),
    "--cache-tokens": ("simulate",),
    "--ttft-ms": ("simulate",),
    "--rate": ("trace",),
    "--format": ("prefix-cache", "equality", "report", "compare", "simulate"),
}
"""The actions that read an option: to the others it would mean nothing."""


def run(
    action: ACTION,
    things: THINGS = [],  # noqa: B006  # never changed
    model: MODEL = None,
    loads: LOADS = None,
    quick: QUICK = False,
    loads_file: LOADS_FILE = None,
    arms: ARMS = None,
    rounds: ROUNDS = None,
    engine: ENGINE = None,
    url: URL = None,
    api_key: API_KEY = None,
    driver: DRIVER = None,
    out: OUT = None,
    seconds: SECONDS = None,
    platform: PLATFORM_OR_CUDA = None,
    overlays: OVERLAYS = None,
    settings: SETTINGS = None,
    pipeline: PIPELINE = None,
    batch_invariant: BATCH_INVARIANT = False,
    trace: TRACE = None,
    replicas: REPLICAS = None,
    routing: ROUTING = None,
    cache_tokens: CACHES = None,
    ttft_ms: GOAL = None,
    rate: RATE = None,
    format: FORMAT = None,
) -> int:
    """0 where all is measured, or equal; 1 where the profile has errors, requests failed, answers differ, time was
    up before the end, or no simulated cluster reaches the goal.
    """
    if action not in _ACTIONS:
        from omnicfg.near import did_you_mean

        hint = did_you_mean(action, _ACTIONS) or f"It can: {', '.join(_ACTIONS)}."
        raise UsageError(f"`omnicfg bench` cannot `{action}`", hint)
    _check_read(
        action,
        {
            "--model": model,
            "--loads": loads,
            "--quick": quick,
            "--loads-file": loads_file,
            "--arm": arms,
            "--rounds": rounds,
            "--engine": engine,
            "--url": url,
            "--api-key": _typed(api_key),
            "--driver": driver,
            "--out": out,
            "--seconds": seconds,
            "--platform": platform,
            "--overlay": overlays,
            "--set": settings,
            "--pipeline": pipeline,
            **confine.given(),
            "--batch-invariant": batch_invariant,
            "--trace": trace,
            "--replicas": replicas,
            "--routing": routing,
            "--cache-tokens": cache_tokens,
            "--ttft-ms": ttft_ms,
            "--rate": rate,
            "--format": format,
        },
    )
    format = format or "text"
    served_by_none = {
        "compare": lambda: _compare(things, format),
        "report": lambda: _report(things, out, format),
        "simulate": lambda: simulate(
            things, trace, arms or (), replicas or "1,2,4", routing, cache_tokens, ttft_ms or 1000, format, _command()
        ),
        "trace": lambda: _trace(things, loads, quick, loads_file, pipeline, platform, rate),
    }
    if action in served_by_none:
        return served_by_none[action]()
    if url is None:
        refuse_unread(f"bench {action}", {"--api-key": _typed(api_key)}, "It is for a server that `--url` names.")
    if action == "equality" and format == "markdown":
        raise UsageError("`omnicfg bench equality` has no report in markdown", "`--format text`, or `json`.")
    from omnicfg.bench.store import refuse_inside

    profile, out = _one_profile(action, things), out or Path("bench")
    refuse_inside(out)
    asked = Asked(
        profile,
        platform or "cuda",
        overlays or [],
        settings or [],
        pipeline,
        model,
        engine or "bundled",
        arms,
        url,
        _own_table(quick, loads_file),
        _named(loads),
        driver or "own",
        out,
        _command(),
    )
    if action == "equality":
        return compare_answers(asked, batch_invariant, format)
    return measure_costs(asked, rounds, api_key, seconds, format)


def _check_read(action: str, given: Mapping[str, object]) -> None:
    """Raises :class:`UsageError` for options that belong to other actions."""
    others = {option: value for option, value in given.items() if action not in _READ_BY[option]}
    whose = [f"`{option}` is for {listed(_READ_BY[option])}." for option in said(others)]
    refuse_unread(f"bench {action}", others, " ".join(whose))


def _typed(key: str | None) -> str | None:
    """The key that stands on the command line; what the environment holds is there for other commands too."""
    return None if key == os.environ.get("OMNICFG_API_KEY") else key


def _compare(names: list[str], format: str) -> int:
    """Two reports side by side; what only one has is told on standard error."""
    if len(names) != 2:
        raise UsageError("`omnicfg bench compare` takes two reports", "`omnicfg bench compare bench/report.json h20`.")
    from omnicfg.bench import comparison
    from omnicfg.report.json import dumps
    from omnicfg.report.table import render_markdown, render_table
    from omnicfg.report.terminal import Style, has_colour, one_line, width_of

    left, right = comparison.reports(*names)
    headers, rows = comparison.headers(left, right), list(comparison.rows(left, right))
    for name, only in zip(names, comparison.alone(left, right), strict=True):
        if only:
            note(f"omnicfg bench: only {name} has {', '.join(only)}")
    for told in comparison.namesakes(left, right):
        note(f"omnicfg bench: left out, since it is another load in the two: {told}")
    if not rows:
        raise UsageError("the two reports have no load in common")
    sides = [f"{side}: {one_line(str(one['profile']))}" for side, one in (("A", left), ("B", right))]
    if format == "json":
        sys.stdout.write(dumps([dict(zip(headers, row, strict=True)) for row in rows]))
    elif format == "markdown":
        sys.stdout.write(f"{'. '.join(sides)}.\n\n" + render_markdown(rows, headers))
    else:
        print("\n".join(sides))
        sys.stdout.write(render_table(rows, Style(has_colour(sys.stdout)), width_of(sys.stdout), headers=headers))
    return 0


def _report(names: list[str], out: Path | None, format: str) -> int:
    """Makes the report of measurements anew, from another machine's too. One without its measurements is shown."""
    if len(names) != 1:
        raise UsageError("`omnicfg bench report` takes one folder", "The one that `bench prefix-cache --out` wrote.")
    from omnicfg.bench.comparison import is_report, read_report, require_measured
    from omnicfg.bench.store import Store, refuse_inside
    from omnicfg.bench.written import show, write

    [name], folder = names, Path(names[0])
    require_measured(name)
    if out is not None:
        refuse_inside(out)
    if is_report(folder) and not Store.is_in(folder):
        report, place = read_report(name), out
    else:
        report, place = _made_anew(Store.of(folder)), out or folder
    if out is not None and Store.is_in(out) and out.resolve() != folder.resolve():
        raise UsageError(f"`{out}` holds the report of its own measurements", "Name another folder with `--out`.")
    if place is not None:
        write(place, report)
    show(report, format)
    return 0


def _made_anew(store: Store) -> Mapping[str, Any]:
    """The report of what is measured. Raises :class:`UsageError` where that is nothing."""
    from omnicfg.bench.report import report_of

    measured = store.measurements()
    if not measured:
        raise UsageError(
            f"`{store.folder}` holds no measurement yet",
            "`omnicfg bench prefix-cache` with the same `--out` goes on there.",
        )
    setup = store.setup
    for one in measured:
        for part in ("arm", "load"):
            if one[part] not in setup[f"{part}s"]:
                raise UsageError(
                    f"`{store.folder}` has a measurement of {part} `{one[part]}`, of which its setup.json says nothing",
                    "Delete that measurement, or bring the setup.json that it was made with.",
                )
    return report_of(setup, measured)


def _trace(
    things: list[str],
    names: list[str] | None,
    quick: bool,
    file: Path | None,
    pipeline: str | None,
    platform: str | None,
    rate: float | None,
) -> int:
    """A trace of loads; no server is needed, and no profile where the options name a table."""
    from omnicfg.bench.loads import chosen, shipped

    table = _own_table(quick, file)
    if table:
        unread = {"PROFILE": things or None, "--pipeline": pipeline, "--platform": platform}
        way = f"bench trace {'--quick' if quick else '--loads-file'}"
        refuse_unread(way, unread, "That says which loads, as a profile would: give one of the two.")
    else:
        from omnicfg.compiler import resolve

        profile = _one_profile("trace", things)
        table = shipped(resolve(profile, platform=platform or "cuda", pipeline=pipeline).pipeline)
    return write_trace(chosen(table, _named(names)), rate, sys.stdout.write)


def _one_profile(action: str, things: list[str]) -> str:
    if len(things) != 1:
        raise UsageError(
            f"`omnicfg bench {action}` takes one profile, and {len(things)} are named",
            "`omnicfg profiles` lists the shipped names.",
        )
    return things[0]


def _own_table(quick: bool, file: Path | None) -> tuple[Load, ...]:
    """The loads that the options name; none where they name none."""
    from omnicfg.bench import loads

    if quick and file is not None:
        raise UsageError("`--quick` and `--loads-file` contradict each other", "Give one of them.")
    return loads.read_loads(file) if file is not None else loads.quick() if quick else ()


def _named(words: list[str] | None) -> list[str]:
    """The loads that ``--loads`` names."""
    return [name for word in words or () for name in word.split(",")]


def _command() -> str:
    """This call's command line, without keys and passwords that are in it: reports are sent around."""
    from omnicfg.bench.arms import shown

    words = ["omnicfg", *(shown(word) for word in sys.argv[1:])]
    for index, word in enumerate(words):
        if words[index - 1] == "--api-key" or word.startswith("--api-key="):
            words[index] = "--api-key=***" if "=" in word else "***"
    return shlex.join(words)
