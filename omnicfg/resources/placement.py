"""Which devices the replicas of a stage take.

Two spellings of ``devices`` exist upstream (vllm-omni 0.30.0, ``stage_init_utils.split_devices_for_replicas``): the
whole pool (``devices`` counts every replica's devices), or the template of one replica, which the next replicas
repeat shifted by its length. With one replica both are the same.

What splits them does not count ``prefill_context_parallel_size`` (``get_stage_devices_per_replica``), while vLLM starts
a process for each of these ranks (``ParallelConfig.world_size``) and vLLM-Omni wants a device for each
(``acquire_device_locks``): no list serves a stage that has both several replicas and such ranks.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Final

from omnicfg.plan import StagePlan
from omnicfg.tree import Mapping, Node, plain
from omnicfg.wording import is_number

MAX_REPLICAS: Final = 4096  # more than one server ever runs; above it nothing is placed
_MAX_DIGITS: Final = 6
PARALLEL_SIZES: Final = (
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "data_parallel_size",
    "data_parallel_size_local",
    "prefill_context_parallel_size",
    "nnodes",
    "ulysses_degree",
    "ring_degree",
    "allgather_degree",
    "cfg_parallel_size",
    "use_hsdp",
    "hsdp_shard_size",
    "hsdp_replicate_size",
)
"""Every setting that says how many devices a stage needs."""


@dataclass(frozen=True)
class Placement:
    """A stage's devices: ``ids`` as written, how many one replica needs, and the devices of each replica.

    ``replicas`` is ``None`` where the count fits neither spelling, or is split wrongly (:func:`is_missplit`).
    """

    ids: tuple[int, ...]
    per_replica: int
    num_replicas: int
    replicas: tuple[tuple[int, ...], ...] | None


def placement_of(stage: StagePlan) -> Placement | None:
    """The placement of a stage; ``None`` where it names no devices, or names them wrongly (other rules say so)."""
    ids = _device_ids(stage.runtime.value("devices"))
    count = stage.runtime.value("num_replicas", 1)
    per_replica = devices_per_replica(stage)
    if ids is None or per_replica is None or not isinstance(count, int) or not 1 <= count <= MAX_REPLICAS:
        return None
    split = None if is_missplit(stage) else _split(ids, count, per_replica)
    return Placement(ids, per_replica, count, split)


def is_missplit(stage: StagePlan) -> bool:
    """Whether vLLM-Omni gives each of the stage's replicas fewer devices than it then wants."""
    count = stage.runtime.value("num_replicas", 1)
    return isinstance(count, int) and count > 1 and (parallel_sizes(stage) or {}).get("PCP", 1) > 1


def named_devices(stage: StagePlan) -> tuple[int, ...]:
    """The devices that a stage names for its first replica.

    Empty where it names none, or where what it names does not fit its sizes (other rules say so).
    """
    placement = placement_of(stage)
    return placement.replicas[0] if placement and placement.replicas else ()


def first_devices(stage: StagePlan) -> tuple[int, ...]:
    """The same; of a stage that names none, the first ones, which CUDA would give it."""
    if stage.runtime.value("devices") is not None:
        return named_devices(stage)
    return tuple(range(min(devices_per_replica(stage) or 0, MAX_REPLICAS)))


def _device_ids(devices: object) -> tuple[int, ...] | None:
    if not isinstance(devices, str):
        return None
    words = [word.strip() for word in devices.split(",") if word.strip()]
    if not words or not all(map(is_device_number, words)):
        return None
    return tuple(int(word) for word in words)


def is_device_number(word: str) -> bool:
    """Whether a word of a device list is the number of a device."""
    return is_number(word, _MAX_DIGITS)


def devices_per_replica(stage: StagePlan) -> int | None:
    """The product of a stage's parallel sizes on one node; ``None`` where one of them is no positive number."""
    sizes = parallel_sizes(stage)
    return None if sizes is None else prod(sizes.values()) // nodes_of(stage, sizes)


def nodes_of(stage: StagePlan, sizes: dict[str, int]) -> int:
    """Over how many nodes vLLM spreads these sizes; 1 where they do not divide evenly, which vLLM refuses."""
    nodes = _size(parallel_setting(stage, "nnodes")) or 1
    return 1 if stage.stage_type == "diffusion" or prod(sizes.values()) % nodes else nodes


def parallel_sizes(stage: StagePlan) -> dict[str, int] | None:
    """``{"TP": 2, "PP": 1, "DP": 1}`` of a stage, local DP, and PCP where it is set; diffusion stages have SP and CFG
    instead, or HSDP alone.

    ``None`` where one of them is no positive number.
    """
    local = parallel_setting(stage, "data_parallel_size_local")
    sizes = {
        "TP": _size(parallel_setting(stage, "tensor_parallel_size")),
        "PP": _size(parallel_setting(stage, "pipeline_parallel_size")),
        "DP": _size(local or parallel_setting(stage, "data_parallel_size")),
    }
    prefill = parallel_setting(stage, "prefill_context_parallel_size")
    if prefill is not None and stage.stage_type != "diffusion":
        sizes["PCP"] = _size(prefill)
    if stage.stage_type == "diffusion":
        sizes["SP"] = sequence_parallel_size(stage)
        sizes["CFG"] = _size(parallel_setting(stage, "cfg_parallel_size"))
    known = {name: size for name, size in sizes.items() if size is not None}
    if len(known) < len(sizes):
        return None
    return _sharded(stage, known) if stage.stage_type == "diffusion" else known


def _sharded(stage: StagePlan, sizes: dict[str, int]) -> dict[str, int] | None:
    """HSDP lies over the other sizes; where they are all 1, it says itself how many devices there are."""
    hsdp = parallel_setting(stage, "use_hsdp")
    if hsdp is None or plain(hsdp) is not True or prod(sizes.values()) > 1:
        return sizes
    shards = parallel_setting(stage, "hsdp_shard_size")
    shard, copies = _size(shards), _size(parallel_setting(stage, "hsdp_replicate_size"))
    return None if shards is None or shard is None or copies is None else {"HSDP": shard * copies}


def sequence_parallel_size(stage: StagePlan) -> int | None:
    """The SP of a diffusion stage, which vllm-omni computes; ``None`` where a degree is no positive number."""
    ulysses, ring, gathered = (
        _size(parallel_setting(stage, name)) for name in ("ulysses_degree", "ring_degree", "allgather_degree")
    )
    if ulysses is None or ring is None or gathered is None:
        return None
    return gathered if gathered > 1 else ulysses * ring


def parallel_setting(stage: StagePlan, name: str) -> Node | None:
    """A parallel size that is set: `parallel_config` goes over the stage's own key."""
    config = stage.engine_args.items.get("parallel_config")
    nested = config.items.get(name) if isinstance(config, Mapping) else None
    node = nested if nested is not None and plain(nested) is not None else stage.engine_args.items.get(name)
    return None if node is None or plain(node) is None else node


def _size(node: Node | None) -> int | None:
    value = 1 if node is None else plain(node)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 1 else None


def _split(ids: tuple[int, ...], count: int, size: int) -> tuple[tuple[int, ...], ...] | None:
    if count == 1:
        return (ids,) if len(ids) == size else None
    if len(ids) == count * size:
        return tuple(ids[start : start + size] for start in range(0, len(ids), size))
    if len(ids) == size and all(device < size for device in ids):
        return tuple(tuple(replica * size + device for device in ids) for replica in range(count))
    return None
