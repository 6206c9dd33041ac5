"""The JSON Schema of what ``omnicfg bench simulate --format json`` prints."""

from __future__ import annotations

from omnicfg.bench.simulation.replica import WORK
from omnicfg.bench.simulation.routings import names
from omnicfg.bench.simulation.told import KIND, VERSION
from omnicfg.export.bench_schema import COUNT, SIZE, TEXT
from omnicfg.export.schema_parts import DIALECT, Schema, nullable, record


def simulation_schema() -> Schema:
    """The schema of a study."""
    properties: Schema = {
        "version": {"const": VERSION},
        "kind": {"const": KIND},
        "made": TEXT | {"format": "date-time", "description": "When it was simulated, in UTC."},
        "command": TEXT,
        "measured": record(dict.fromkeys(("profile", "pipeline", "model", "engine", "arm"), TEXT))
        | {"description": "Whose measurements the figures are from."},
        "figures": _figures(),
        "trace": record(
            {
                "name": TEXT,
                "requests": COUNT,
                "seconds": SIZE | {"description": "From the first second to the last arrival."},
                "prompt_tokens": COUNT,
                "output_tokens": COUNT,
                "shared": SIZE | {"description": "The share of prompt tokens that one boundless cache would know."},
            }
        ),
        "goal": record({"ttft_p99_ms": COUNT}),
        "runs": {"type": "array", "items": _run()},
        "chosen": nullable(_run()) | {"description": "The cluster to choose; null where none reaches the goal."},
        "settings": {"type": "array", "items": TEXT, "description": "How to have it, in words."},
    }
    head = {
        "$schema": DIALECT,
        "$id": "simulation.schema.json",
        "title": "Simulation",
        "description": "What replicas of a measured server would do with a trace: `omnicfg bench simulate`.",
    }
    return head | record(properties)


def _figures() -> Schema:
    return record(
        {
            "block_tokens": COUNT,
            "cache_tokens": COUNT,
            "max_num_seqs": COUNT,
            "max_num_batched_tokens": COUNT,
            "seconds": record(dict.fromkeys(WORK, SIZE))
            | {"description": "For one of each of what steps are made of."},
            "prefill_tokens_per_second": nullable(SIZE),
            "decode_step_ms": SIZE | {"description": "A step that answers one request."},
            "decode_step_full_ms": SIZE | {"description": "A step that answers as many as there may be."},
            "fits": {"type": "array", "items": _fit()},
        }
    )


def _fit() -> Schema:
    return record(
        {
            "load": TEXT,
            "requests_per_second": record({"measured": SIZE, "simulated": SIZE}),
            "hit_rate": record({"measured": nullable(SIZE), "simulated": SIZE}),
        }
    )


def _run() -> Schema:
    return record(
        {
            "replicas": COUNT,
            "routing": {"enum": list(names())},
            "cache_tokens": COUNT | {"description": "Of each replica."},
            "seconds": SIZE | {"description": "To the last answer."},
            "requests_per_second": SIZE,
            "output_tokens_per_second": SIZE,
            "hit_rate": SIZE,
            "ttft_ms": record({"mean": SIZE, "median": SIZE, "p99": SIZE}),
            "tpot_ms": nullable(SIZE),
            "busiest_share": SIZE | {"description": "The share of requests that went to the busiest replica."},
            "busy": {"type": "array", "items": SIZE, "description": "For each replica, the share of time in steps."},
            "preemptions": COUNT,
            "evicted_blocks": COUNT,
        }
    )
