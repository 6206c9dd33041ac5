"""A seeded mutator over parsed profiles: what is written is always YAML, so every change gets past the reader."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any, Final

NASTY: Final[tuple[Any, ...]] = (
    None, True, False, 0, 1, -1, 8, 2**70, 10**12, 0.5, -0.0, 1.5, 1e308, float("inf"), float("nan"), "", " ", "true",
    "false", "0", "8", "-1", "0.9", "null", "0,0,abc,-1", "0,1,2,3", "9" * 4500, "\u0663", "x" * 2000, "v2", "duplex",
    "a\nb", "\u4e2d\u6587", [], {}, [[]], [{}], [None], [1, "two", 3.0], ["0", "1"], {"a": 1},
    {"a": {"b": {"c": [1]}}}, {1: 2}, {True: 1, 2.5: 2}, {"stage_id": 0}, [{"stage_id": 0}],
    [{"stage_id": 0}, {"stage_id": 0}], {"name": "SharedMemoryConnector"}, {"from_stage_0": "shm"},
    {"cuda": None, "npu": [], "NPU": {}}, {"cuda": {"stages": [{"stage_id": 0, "engine_args": {"stage_id": {}}}]}},
    {"npu": {"model_runner": "v2"}}, [{"from": 0, "to": 1}], list(range(200)), {f"key_{n}": n for n in range(200)},
)  # fmt: skip
KEYS: Final[tuple[Any, ...]] = (
    "stages", "platforms", "connectors", "edges", "pipeline", "async_chunk", "session_mode", "model_runner",
    "duplex_session", "active_stream_window", "trust_remote_code", "enable_prefix_caching", "stage_id", "devices",
    "num_replicas", "env", "runtime", "engine_args", "engine_extras", "default_sampling_params",
    "default_pooling_params", "subtalker_sampling_params", "input_connectors", "output_connectors", "parallel_config",
    "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "gpu_memory_utilization", "max_num_seqs",
    "max_num_batched_tokens", "stop_token_ids", "extra", "name", "cuda", "npu", "rocm", "xpu", "musa", "max_sessions",
    "use_v2_model_runner", "async_scheduling", "model_arch", "process", "requires_multimodal_data", "omni_kv_config",
    "final_output", "compilation_config", "dtype", "quantization", 0, 1, 2.5, True, "", "no such key", "max_num_seq",
    "Stages", "x" * 300,
)  # fmt: skip

Place = tuple[Any, Any]


def restructure(document: dict[Any, Any], rng: random.Random) -> dict[Any, Any]:
    """A copy of a parsed profile with one to four changes."""
    changed = copy.deepcopy(document)
    for _ in range(rng.choice((1, 1, 2, 2, 3, 4))):
        places = list(_places(changed))
        if not places:
            break
        parent, key = rng.choice(places)
        _change(parent, key, rng)
    return changed


def _places(node: Any) -> Iterator[Place]:
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in children:
        yield node, key
        yield from _places(child)


def _change(parent: Any, key: Any, rng: random.Random) -> None:
    kind = rng.randrange(8)
    if kind <= 2:
        parent[key] = copy.deepcopy(rng.choice(NASTY))
    elif kind == 3:
        del parent[key]
    elif kind == 4 and isinstance(parent, dict):
        parent[rng.choice(KEYS)] = parent.pop(key)
    elif kind == 5 and isinstance(parent, dict):
        parent[rng.choice(KEYS)] = copy.deepcopy(rng.choice(NASTY))
    elif kind == 6:
        parent[key] = [parent[key]] if rng.random() < 0.5 else {rng.choice(KEYS): parent[key]}
    elif isinstance(parent, list):
        parent.insert(rng.randrange(len(parent) + 1), copy.deepcopy(parent[key]))
    else:
        child = parent[key]
        if isinstance(child, dict):
            child[rng.choice(KEYS)] = copy.deepcopy(rng.choice(NASTY))


def to_yaml(value: Any) -> str:
    """The value in YAML's flow style, which is JSON with other keys than strings."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{to_yaml(key)}: {to_yaml(child)}" for key, child in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(to_yaml, value)) + "]"
    if isinstance(value, float):
        return {"inf": ".inf", "-inf": "-.inf", "nan": ".nan"}.get(str(value), repr(value))
    return json.dumps(value)
