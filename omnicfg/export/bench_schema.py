"""The JSON Schema of what ``omnicfg bench prefix-cache`` writes, made from what :mod:`omnicfg.bench` puts there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omnicfg.bench.loads import ANSWERS
from omnicfg.bench.report import KIND
from omnicfg.bench.store import VERSION
from omnicfg.catalog.upstream import deploy_schema

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_SIZE: Schema = {"type": "number", "minimum": 0}


def bench_schema() -> Schema:
    """The schema of a report."""
    properties: Schema = {
        "version": {"const": VERSION},
        "kind": {"const": KIND},
        "made": _TEXT | {"format": "date-time", "description": "When the report was made, in UTC."},
        "command": _TEXT | {"description": "The command line of the last call."},
        "profile": _TEXT,
        "pipeline": _TEXT,
        "platform": {"enum": list(deploy_schema().platforms)},
        "model": _TEXT | {"description": "The model as clients call it."},
        "engine": _TEXT,
        "driver": _TEXT | {"description": "Who sent the requests."},
        "baseline": _TEXT | {"description": "The arm that ratios are against."},
        "arms": _map(_arm()),
        "machines": {"type": "array", "items": _machine()},
        "loads": {"type": "array", "items": _load()},
        "measurements": {"type": "array", "items": _measurement()},
    }
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "bench.schema.json", "title": "Bench"}
    return head | {"description": "What `omnicfg bench prefix-cache` measured."} | _record(properties)


def _arm() -> Schema:
    return _record(
        {
            "settings": {"type": "array", "items": _TEXT, "description": "Overrides, as `--set` takes them."},
            "alone": {"type": "boolean", "description": "The first stage alone is served."},
            "rows": {"type": "boolean", "description": "Every request asks for its hidden states."},
            "plan": _TEXT | {"description": "A digest of the plan."},
            "limits": _map(_maybe(_COUNT))
            | {"description": "Engine args that bound the first stage; null: vLLM's own."},
        }
    )


def _machine() -> Schema:
    versions = {"type": "object", "additionalProperties": {"type": ["string", "null"]}}
    return _record(
        {
            "gpus": {"type": "array", "items": _TEXT},
            "cpu": _TEXT,
            "cores": _COUNT,
            "system": _TEXT,
            "versions": versions,
        }
    )


def _load() -> Schema:
    described: Schema = {
        "name": _TEXT,
        "shared_prefix_tokens": _COUNT,
        "own_tokens_mean": _COUNT,
        "output_tokens": _COUNT,
        "range_ratio": {"type": "number", "minimum": 0, "exclusiveMaximum": 1},
        "prefixes": _COUNT,
        "answer": {"enum": list(ANSWERS)},
        "concurrency": _COUNT,
        "prompts": _COUNT,
        "seed": _COUNT,
    }
    return _record(described | {"arms": _map(_summary())})


def _summary() -> Schema:
    """One arm under one load, over its rounds."""
    return _record(
        {
            "rounds": _COUNT,
            "requests_per_second": _range(),
            "hit_rate": _maybe(_range()),
            "ttft_ms": _maybe(_SIZE),
            "tpot_ms": _maybe(_SIZE),
            "ttfp_ms": _maybe(_SIZE),
            "real_time_factor": _maybe(_SIZE),
            "cache_tokens": _maybe(_COUNT),
            "resident_gib": _maybe(_SIZE),
            "errors": _COUNT,
            "ratio": _maybe(_range()) | {"description": "Requests per second to the baseline's of the same round."},
            "ttft_ratio": _maybe(_SIZE),
            "tpot_ratio": _maybe(_SIZE),
            "ttfp_ratio": _maybe(_SIZE),
        }
    )


def _measurement() -> Schema:
    """One arm under one load in one round."""
    times = _maybe(_record({"mean": _SIZE, "median": _SIZE, "p99": _SIZE}))
    resident = {"type": "object", "additionalProperties": False, "required": ["all"]}
    return _record(
        {
            "round": _COUNT,
            "arm": _TEXT,
            "load": _TEXT,
            "date": _TEXT | {"format": "date-time"},
            "requests": _COUNT,
            "completed": _COUNT,
            "errors": _COUNT,
            "error_samples": {"type": "array", "items": _TEXT},
            "seconds": _SIZE,
            "requests_per_second": _SIZE,
            "output_tokens": _COUNT,
            "ttft_ms": times,
            "tpot_ms": times,
            "ttfp_ms": times,
            "audio_seconds": _SIZE,
            "real_time_factor": times
            | {"description": "Seconds from sending to the last packet of sound, for each second of it."},
            "queried_tokens": _COUNT | {"description": "Prompt tokens that were looked up in the prefix cache."},
            "hit_tokens": _COUNT,
            "hit_rate": _maybe(_SIZE),
            "payloads": _maybe(_record({"complete": _COUNT, "incomplete": _COUNT, "bytes": _COUNT}))
            | {"description": "The hidden states that came, of requests that asked for them."},
            "preemptions": _COUNT,
            "resident_gib": _maybe(resident | {"properties": {"stage_0": _SIZE, "all": _SIZE}}),
            "cache_tokens": _maybe(_COUNT),
            "block_tokens": _maybe(_COUNT),
            "server": _record({"start_s": _maybe(_SIZE), "log": _maybe(_TEXT), "speaks": {"type": "boolean"}}),
            "machine": _machine(),
        }
    )


def _range() -> Schema:
    return _record({"median": _SIZE, "low": _SIZE, "high": _SIZE})


def _maybe(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _map(schema: Schema) -> Schema:
    return {"type": "object", "additionalProperties": schema}


def _record(properties: Mapping[str, Any]) -> Schema:
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": dict(properties),
        "required": list(properties),
    }
