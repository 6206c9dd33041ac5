"""Which devices the replicas of a stage take.

Two spellings of ``devices`` exist upstream (vllm-omni 0.30.0, ``stage_init_utils.split_devices_for_replicas``): the
whole pool (``devices`` counts every replica's devices), or the template of one replica, which the next replicas
repeat shifted by its length. With one replica both are the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from omnicfg.plan import StagePlan

MAX_REPLICAS: Final = 4096  # more than one server ever runs; above it nothing is placed
_MAX_DIGITS: Final = 6


@dataclass(frozen=True)
class Placement:
    """A stage's devices: ``ids`` as written, how many one replica needs, and the devices of each replica.

    ``replicas`` is ``None`` where the count fits neither spelling.
    """

    ids: tuple[int, ...]
    per_replica: int
    num_replicas: int
    replicas: tuple[tuple[int, ...], ...] | None


def placement_of(stage: StagePlan) -> Placement | None:
    """The placement of an LLM stage; ``None`` where it names no devices, or names them wrongly (other rules say so)."""
    ids = _device_ids(stage.runtime.value("devices"))
    count = stage.runtime.value("num_replicas", 1)
    per_replica = devices_per_replica(stage)
    if ids is None or per_replica is None or not isinstance(count, int) or not 1 <= count <= MAX_REPLICAS:
        return None
    return Placement(ids, per_replica, count, _split(ids, count, per_replica))


def _device_ids(devices: object) -> tuple[int, ...] | None:
    if not isinstance(devices, str):
        return None
    words = [word.strip() for word in devices.split(",") if word.strip()]
    if not words or not all(map(is_device_number, words)):
        return None
    return tuple(int(word) for word in words)


def is_device_number(word: str) -> bool:
    """Whether a word of a device list is the number of a device."""
    return word.isascii() and word.isdecimal() and len(word) <= _MAX_DIGITS


def devices_per_replica(stage: StagePlan) -> int | None:
    """TP · PP · local DP of an LLM stage; ``None`` for a diffusion stage, or where a size is no positive number."""
    if stage.stage_type == "diffusion":
        return None
    local = stage.arg("data_parallel_size_local")
    data_parallel = stage.arg("data_parallel_size") if local is None else local
    return _product(stage.arg("tensor_parallel_size"), stage.arg("pipeline_parallel_size"), data_parallel)


def _product(*sizes: object) -> int | None:
    product = 1
    for size in sizes:
        if size is None:
            continue
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            return None
        product *= size
    return product


def _split(ids: tuple[int, ...], count: int, size: int) -> tuple[tuple[int, ...], ...] | None:
    if count == 1:
        return (ids,) if len(ids) == size else None
    if len(ids) == count * size:
        return tuple(ids[start : start + size] for start in range(0, len(ids), size))
    if len(ids) == size and all(device < size for device in ids):
        return tuple(tuple(replica * size + device for device in ids) for replica in range(count))
    return None
