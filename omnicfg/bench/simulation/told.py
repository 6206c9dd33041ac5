"""A study as data, for a terminal, and in Markdown."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from typing import Any, Final

from omnicfg.bench.simulation.study import Run, Study, settings
from omnicfg.bench.tables import change, rate
from omnicfg.report.table import Cell, Row, render_markdown, render_table
from omnicfg.report.terminal import Style, one_line, printable
from omnicfg.wording import counted, plural

VERSION: Final = 1
KIND: Final = "simulation"
_HEADERS: Final = (
    *("replicas", "routing", "cache (tokens)", "hit", "req/s", "TTFT ms", "99% of TTFT", "TPOT ms", "busiest", "notes"),
)


def document(study: Study, report: Mapping[str, Any], arm: str, trace: str, command: str) -> dict[str, Any]:
    """The JSON form; ``schemas/simulation.schema.json`` describes it."""
    calls = study.traffic.calls
    chosen = study.chosen
    return {
        "version": VERSION,
        "kind": KIND,
        "made": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": command,
        "measured": {name: report[name] for name in ("profile", "pipeline", "model", "engine")} | {"arm": arm},
        "figures": study.figures.to_dict(),
        "trace": {
            "name": trace,
            "requests": len(calls),
            "seconds": round(calls[-1].arrival_s, 3),
            "prompt_tokens": sum(call.prompt_tokens for call in calls),
            "output_tokens": sum(call.output_tokens for call in calls),
            "shared": round(study.traffic.shared, 5),
        },
        "goal": {"ttft_p99_ms": study.ttft_ms},
        "runs": [run.to_dict() for run in study.runs],
        "chosen": None if chosen is None else chosen.to_dict(),
        "settings": [] if chosen is None else list(settings(chosen, study.figures, _bytes(report, arm))),
    }


def text(study: Study, told: Mapping[str, Any], style: Style, width: int | None) -> str:
    """For a terminal."""
    table = render_table([_row(study, run) for run in study.runs], style, width, headers=_HEADERS)
    lines = [
        *_about(study, told),
        "",
        table.rstrip("\n"),
        "",
        _verdict(study),
        *(f"- {one}" for one in told["settings"]),
    ]
    return "".join(f"{line}\n" for line in lines)


def markdown(study: Study, told: Mapping[str, Any]) -> str:
    """For a review."""
    table = render_markdown([_row(study, run) for run in study.runs], _HEADERS)
    head = [f"# {one_line(str(told['trace']['name']))}: how many replicas, and who routes", ""]
    lines = [*head, *(f"- {line}" for line in _about(study, told)), f"- made {told['made']} with `{told['command']}`"]
    end = [_verdict(study), "", *(f"- {one}" for one in told["settings"])]
    return printable("".join(f"{line}\n" for line in [*lines, "", table, *end]))


def _about(study: Study, told: Mapping[str, Any]) -> Iterator[str]:
    trace, figures, measured = told["trace"], told["figures"], told["measured"]
    requests = f"{trace['requests']:,} {plural(trace['requests'], 'request')}"
    yield (
        f"trace {one_line(str(trace['name']))}: {requests} in {trace['seconds']:,.0f} s, "
        f"{trace['prompt_tokens']:,} prompt tokens, {trace['shared']:.1%} of them known to a boundless cache, "
        f"{trace['output_tokens']:,} to answer"
    )
    yield (
        f"a replica, as measured ({one_line(str(measured['profile']))}, arm {measured['arm']}): "
        f"prefill {figures['prefill_tokens_per_second'] or 0:,.0f} tokens/s, a step of one answer "
        f"{figures['decode_step_ms']:.4g} ms, of {figures['max_num_seqs']} {figures['decode_step_full_ms']:.4g} ms; "
        f"{figures['cache_tokens']:,} tokens of cache in blocks of {figures['block_tokens']}"
    )
    errors = [fit.error for fit in study.figures.fits]
    if study.left_out:
        yield "a cluster is left out with caches larger than those that it never was short of"
    yield (
        f"rates that are simulated so are off by {change(1 + min(errors))} to {change(1 + max(errors))} "
        f"on the {len(errors)} measured loads"
    )


def _row(study: Study, run: Run) -> Row:
    told = run.outcome
    tpot = told["tpot_ms"]
    style = "strong" if run == study.chosen else ""
    cells = (
        str(run.replicas),
        run.routing if run.replicas > 1 else "",
        f"{run.cache_tokens:,}",
        f"{told['hit_rate']:.1%}",
        rate(told["requests_per_second"]),
        f"{told['ttft_ms']['mean']:,.0f}",
        f"{run.ttft_ms:,.0f}",
        "" if tpot is None else f"{tpot:,.1f}",
        f"{told['busiest_share']:.0%}",
        ", ".join(_notes(study, run)),
    )
    return [Cell(cell, style) for cell in cells]


def _notes(study: Study, run: Run) -> Iterator[str]:
    if run == study.chosen:
        yield "chosen"
    if run.outcome["preemptions"]:
        yield counted(run.outcome["preemptions"], "preemption")


def _verdict(study: Study) -> str:
    chosen = study.chosen
    goal = f"99% of first tokens within {study.ttft_ms:,} ms"
    if chosen is None:
        return (
            f"None of these has {goal}. The quickest: {_cluster(study.best)}. More replicas, or a looser `--ttft-ms`."
        )
    return f"Choose {_cluster(chosen)}; the goal is {goal}."


def _cluster(run: Run) -> str:
    replicas = "1 replica" if run.replicas == 1 else f"{run.replicas} replicas, {run.routing} routing"
    return (
        f"{replicas}, {run.cache_tokens:,} tokens of cache each: hit rate {run.outcome['hit_rate']:.1%}, "
        f"{rate(run.outcome['requests_per_second'])} requests/s, 99% of first tokens within {run.ttft_ms:,.0f} ms"
    )


def _bytes(report: Mapping[str, Any], arm: str) -> int | None:
    value = report["arms"][arm]["limits"].get("kv_cache_memory_bytes")
    return value if isinstance(value, int) else None
