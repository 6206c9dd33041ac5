"""``bench simulate`` and ``bench trace``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

from omnicfg.errors import UsageError
from omnicfg.parser import Option
from omnicfg.streams import note
from omnicfg.wording import is_number

if TYPE_CHECKING:
    from omnicfg.bench.loads import Load

_MOST_REPLICAS: Final = 256
_FEWER: Final = "Pick some with `--loads`, or give them fewer `prompts`."


def trace_names() -> Iterable[str]:
    """The shipped traces, for a shell to complete."""
    from omnicfg.bench.simulation.trace import shipped

    return shipped()


def routing_names() -> Iterable[str]:
    """The routings, for a shell to complete."""
    from omnicfg.bench.simulation import routings

    return routings.names()


TRACE = Annotated[
    str | None,
    Option("--trace", metavar="CSV", help="simulate: the requests, a file or a shipped trace.", words=trace_names),
]
REPLICAS = Annotated[
    str | None, Option("--replicas", metavar="N,...", help="simulate: how many replicas to try. Else 1,2,4.")
]
ROUTING = Annotated[
    list[str] | None,
    Option(
        "--routing",
        metavar="NAME,...",
        help="simulate: only these routings; repeatable. Else all.",
        words=routing_names,
    ),
]
CACHES = Annotated[
    str | None,
    Option(
        "--cache-tokens",
        metavar="N,...",
        help="simulate: tokens of cache a replica to try. Else a quarter of the measured, half, once and twice that.",
    ),
]
GOAL = Annotated[
    int | None,
    Option("--ttft-ms", metavar="MS", min=1, help="simulate: within what 99% of first tokens have to come. Else 1000."),
]
RATE = Annotated[
    float | None,
    Option("--rate", metavar="N", help="trace: requests a second of each load. Else all of them come at once."),
]


def simulate(
    reports: Sequence[str],
    trace: str | None,
    arms: Sequence[str],
    replicas: str,
    routing: Sequence[str] | None,
    cache_tokens: str | None,
    ttft_ms: int,
    format: str,
    command: str,
) -> int:
    """Print what clusters of the measured server would do with a trace; 1 where none reaches the goal."""
    from omnicfg.bench.comparison import read_report, require_measured

    for name in reports:
        require_measured(name)
    if len(reports) != 1 or trace is None:
        raise UsageError(
            "`omnicfg bench simulate` takes one report and a trace",
            "`omnicfg bench simulate bench --trace requests.csv`; the report is the folder of `--out`.",
        )
    from omnicfg.bench.simulation import routings, told
    from omnicfg.bench.simulation.figures import figures
    from omnicfg.bench.simulation.study import study
    from omnicfg.bench.simulation.trace import read_trace
    from omnicfg.report.progress import working

    counts = _numbers("--replicas", replicas, _MOST_REPLICAS)
    sizes = _numbers("--cache-tokens", cache_tokens, 1 << 40) if cache_tokens else []
    by = list(dict.fromkeys(name for word in routing or routings.names() for name in word.split(",")))
    for name in by:
        routings.routing(name)
    report = read_report(reports[0])
    arm = _arm(report, arms)
    with working("simulating") as work:
        done = study(read_trace(trace), figures(report, arm), counts, by, sizes, ttft_ms, work.each)
        document = told.document(done, report, arm, trace, command)
    _show(done, document, format)
    return int(done.chosen is None)


def _show(done: Any, document: Mapping[str, Any], format: str) -> None:
    from omnicfg.bench.simulation import told
    from omnicfg.report.json import dumps
    from omnicfg.report.terminal import Style, has_colour, width_of

    if format == "json":
        sys.stdout.write(dumps(document))
    elif format == "markdown":
        sys.stdout.write(told.markdown(done, document))
    else:
        sys.stdout.write(told.text(done, document, Style(has_colour(sys.stdout)), width_of(sys.stdout)))


def _arm(report: Mapping[str, Any], named: Sequence[str]) -> str:
    """The arm whose figures count: the one that is named, or the only one beside the baseline."""
    if len(named) > 1:
        raise UsageError("`omnicfg bench simulate` takes one arm", "Name the one that is to be served.")
    others = [name for name in report["arms"] if name != report["baseline"]] or list(report["arms"])
    if not named and len(others) > 1:
        raise UsageError(f"the report has arms {', '.join(report['arms'])}", "Name one with `--arm`.")
    return named[0] if named else str(others[0])


def _numbers(option: str, text: str, most: int) -> list[int]:
    numbers = [int(word) if is_number(word, 15) else 0 for word in text.split(",")]
    if not all(1 <= number <= most for number in numbers):
        raise UsageError(f"`{option} {text}` is no list of numbers from 1 to {most}", f"`{option} 1,2,4`")
    return sorted(set(numbers))


def write_trace(loads: Sequence[Load], rate: float | None, write: Callable[[str], Any]) -> int:
    """Write a trace of loads whose requests come side by side."""
    if rate is not None and not 0 < rate <= 1e6:
        raise UsageError(f"`--rate {rate:g}` is no rate at which requests could come", "`--rate 8` is eight a second.")
    from omnicfg.bench.loads import MAX_TOKENS
    from omnicfg.bench.simulation.trace import MAX_ROWS, MAX_SECONDS, calls_of, lines

    for load in loads:
        if load.longest > MAX_TOKENS:
            raise UsageError(
                f"a request of load `{load.name}` may have {load.longest:,} tokens",
                f"In a trace it has {MAX_TOKENS:,} at most, its answer among them.",
            )
    requests = sum(load.prompts for load in loads)
    if requests >= MAX_ROWS:
        raise UsageError(f"a trace has room for {MAX_ROWS - 1:,} requests, and these loads have {requests:,}", _FEWER)
    spoken = [load.name for load in loads if load.answer != "text"]
    if spoken:
        note(f"omnicfg bench: simulated without speech: {', '.join(spoken)}")
    calls = sorted((call for load in loads for call in calls_of(load, rate)), key=lambda call: call.arrival_s)
    if calls[-1].arrival_s > MAX_SECONDS:
        raise UsageError(
            f"at `--rate {rate:g}` the last request comes after {calls[-1].arrival_s:.3g} s, and a trace ends at "
            f"{MAX_SECONDS:,}",
            "Let more of them come in a second.",
        )
    for line in lines(calls):
        write(f"{line}\n")
    return 0
