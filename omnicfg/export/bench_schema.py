"""The JSON Schema of what ``omnicfg bench prefix-cache`` writes, made from what :mod:`omnicfg.bench` puts there."""

from __future__ import annotations

from omnicfg.bench.loads import ANSWERS
from omnicfg.bench.report import KIND
from omnicfg.bench.store import VERSION
from omnicfg.catalog.upstream import deploy_schema
from omnicfg.export.schema_parts import DIALECT, Schema, nullable, record

TEXT: Schema = {"type": "string"}
LARGEST = 10**18
"""No count and no time is larger, and what is computed with it stays a number."""
COUNT: Schema = {"type": "integer", "minimum": 0, "maximum": LARGEST}
SIZE: Schema = {"type": "number", "minimum": 0, "maximum": LARGEST}


def bench_schema() -> Schema:
    """The schema of a report."""
    properties: Schema = {
        "version": {"const": VERSION},
        "kind": {"const": KIND},
        "made": TEXT | {"format": "date-time", "description": "When the report was made, in UTC."},
        "command": TEXT | {"description": "The command line of the last call."},
        "profile": TEXT,
        "pipeline": TEXT,
        "platform": {"enum": list(deploy_schema().platforms)},
        "model": TEXT | {"description": "The model as clients call it."},
        "engine": TEXT,
        "driver": TEXT | {"description": "Who sent the requests."},
        "baseline": TEXT | {"description": "The arm that ratios are against."},
        "arms": _map(_arm()),
        "machines": {"type": "array", "items": _machine()},
        "loads": {"type": "array", "items": _load()},
        "measurements": {"type": "array", "items": _measurement()},
    }
    head = {"$schema": DIALECT, "$id": "bench.schema.json", "title": "Bench"}
    return head | {"description": "What `omnicfg bench prefix-cache` measured."} | record(properties)


def _arm() -> Schema:
    return record(
        {
            "settings": {"type": "array", "items": TEXT, "description": "Overrides, as `--set` takes them."},
            "alone": {"type": "boolean", "description": "The first stage alone is served."},
            "rows": {"type": "boolean", "description": "Every request asks for its hidden states."},
            "plan": TEXT | {"description": "A digest of the plan."},
            "limits": _map(nullable(COUNT))
            | {"description": "Engine args that bound the first stage; null: vLLM's own."},
        }
    )


def _machine() -> Schema:
    versions = {"type": "object", "additionalProperties": {"type": ["string", "null"]}}
    return record(
        {
            "gpus": {"type": "array", "items": TEXT},
            "cpu": TEXT,
            "cores": COUNT,
            "system": TEXT,
            "versions": versions,
        }
    )


def _load() -> Schema:
    described: Schema = {
        "name": TEXT,
        "shared_prefix_tokens": COUNT,
        "own_tokens_mean": COUNT,
        "output_tokens": COUNT,
        "range_ratio": {"type": "number", "minimum": 0, "exclusiveMaximum": 1},
        "prefixes": COUNT,
        "answer": {"enum": list(ANSWERS)},
        "concurrency": COUNT,
        "prompts": COUNT,
        "seed": COUNT,
    }
    return record(described | {"arms": _map(_summary())})


def _summary() -> Schema:
    """One arm under one load, over its rounds."""
    return record(
        {
            "rounds": COUNT,
            "requests_per_second": _range(),
            "hit_rate": nullable(_range()),
            "ttft_ms": nullable(SIZE),
            "tpot_ms": nullable(SIZE),
            "ttfp_ms": nullable(SIZE),
            "real_time_factor": nullable(SIZE),
            "cache_tokens": nullable(COUNT),
            "resident_gib": nullable(SIZE),
            "errors": COUNT,
            "ratio": nullable(_range()) | {"description": "Requests per second to the baseline's of the same round."},
            "ttft_ratio": nullable(SIZE),
            "tpot_ratio": nullable(SIZE),
            "ttfp_ratio": nullable(SIZE),
        }
    )


def _measurement() -> Schema:
    """One arm under one load in one round."""
    times = nullable(record({"mean": SIZE, "median": SIZE, "p99": SIZE}))
    resident = {"type": "object", "additionalProperties": False, "required": ["all"]}
    return record(
        {
            "round": COUNT,
            "arm": TEXT,
            "load": TEXT,
            "date": TEXT | {"format": "date-time"},
            "requests": COUNT,
            "completed": COUNT,
            "errors": COUNT,
            "error_samples": {"type": "array", "items": TEXT},
            "seconds": SIZE,
            "requests_per_second": SIZE,
            "output_tokens": COUNT,
            "ttft_ms": times,
            "tpot_ms": times,
            "ttfp_ms": times,
            "audio_seconds": SIZE,
            "real_time_factor": times
            | {"description": "Seconds from sending to the last packet of sound, for each second of it."},
            "queried_tokens": COUNT | {"description": "Prompt tokens that were looked up in the prefix cache."},
            "hit_tokens": COUNT,
            "hit_rate": nullable(SIZE),
            "payloads": nullable(record({"complete": COUNT, "incomplete": COUNT, "bytes": COUNT}))
            | {"description": "The hidden states that came, of requests that asked for them."},
            "preemptions": COUNT,
            "resident_gib": nullable(resident | {"properties": {"stage_0": SIZE, "all": SIZE}}),
            "cache_tokens": nullable(COUNT),
            "block_tokens": nullable(COUNT),
            "server": record({"start_s": nullable(SIZE), "log": nullable(TEXT), "speaks": {"type": "boolean"}}),
            "machine": _machine(),
        }
    )


def _range() -> Schema:
    return record({"median": SIZE, "low": SIZE, "high": SIZE})


def _map(schema: Schema) -> Schema:
    return {"type": "object", "additionalProperties": schema}
