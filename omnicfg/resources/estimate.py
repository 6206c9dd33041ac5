"""What the stages of a plan hold in their KV caches, from the plan and a model's directory, before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omnicfg.engine import memory
from omnicfg.engine.memory import CacheEstimate
from omnicfg.engine.spec import EngineSpecError, PayloadRows
from omnicfg.payload import rows_of
from omnicfg.plan import Plan, StagePlan
from omnicfg.resources.checkpoint import stage_config, stage_directory, weight_bytes
from omnicfg.resources.sizes import gib
from omnicfg.tree import plain


@dataclass(frozen=True, slots=True)
class StageEstimate:
    """One stage: bytes per token, and what is left for the cache on one device, where that can be told.

    ``kv_memory`` is in bytes, and ``origin`` says where it comes from; ``tokens`` fit into it, ``tokens_without_rows``
    without payload rows. ``longest`` is the stage's ``max_model_len``, where it is set.
    """

    stage_id: int
    model_stage: str
    cache: CacheEstimate
    kv_memory: int | None
    origin: str
    tokens: int | None
    tokens_without_rows: int | None
    longest: int | None


@dataclass(frozen=True, slots=True)
class NoEstimate:
    """A stage of which nothing can be told, and why."""

    stage_id: int
    model_stage: str
    why: str


def estimates(plan: Plan, model: Path, device_memory: int | None = None) -> Iterator[StageEstimate | NoEstimate]:
    """The estimate of every stage that generates tokens, for a device with ``device_memory`` bytes in all.

    Stage 0 counts the payload rows that the bundled engine keeps for a later stage. Raises
    :class:`~omnicfg.errors.ResolveError` for a ``config.json`` that cannot be read.
    """
    for stage in plan.stages:
        if stage.worker_type != "ar":
            continue
        config = stage_config(model, stage)
        if config is None:
            why = f"{stage_directory(model, stage)} holds no config.json"
            yield NoEstimate(stage.stage_id, stage.model_stage, why)
            continue
        try:
            rows = rows_of(plan, config) if stage.stage_id == plan.stages[0].stage_id else None
            yield _estimate(stage, config, rows, stage_directory(model, stage), device_memory)
        except EngineSpecError as error:
            yield NoEstimate(stage.stage_id, stage.model_stage, str(error))


def _estimate(
    stage: StagePlan, config: Mapping[str, Any], rows: PayloadRows | None, directory: Path, device_memory: int | None
) -> StageEstimate:
    args = plain(stage.engine_args)
    own, prefix = _own_part(config, stage)
    cache = memory.estimate(own, args, rows)
    left, origin = _kv_memory(own, args, directory, prefix, device_memory)
    block = memory.block_size(args)
    without = CacheEstimate(cache.kv_bytes, 0)
    longest = stage.arg("max_model_len")
    return StageEstimate(
        stage.stage_id,
        stage.model_stage,
        cache,
        left,
        origin,
        None if left is None else cache.tokens(left, block),
        None if left is None else without.tokens(left, block),
        longest if type(longest) is int and longest > 0 else None,
    )


def _own_part(config: Mapping[str, Any], stage: StagePlan) -> tuple[Mapping[str, Any], str]:
    """A stage's own part of a ``config.json``, by the pipeline, and how the names of its weights begin.

    Checkpoints of several models, such as Qwen's, have the weights of ``talker_config`` under ``talker``.
    """
    name = stage.tree.value("hf_config_name")
    part = config.get(name) if isinstance(name, str) else None
    if not isinstance(part, Mapping):
        return config, ""
    inherited = {key: config[key] for key in ("dtype", "torch_dtype") if key in config}
    return {**inherited, **part}, f"{name.removesuffix('_config')}."


def _kv_memory(
    config: Mapping[str, Any], args: Mapping[str, Any], directory: Path, prefix: str, device_memory: int | None
) -> tuple[int | None, str]:
    """The bytes for the cache on one device, and in words how they come about; ``None`` where that is not known."""
    given = args.get("kv_cache_memory_bytes")
    if type(given) is int and given > 0:
        return given, "kv_cache_memory_bytes"
    if device_memory is None:
        return None, "--device-memory says of which device"
    itemsize = memory.itemsize(memory.model_dtype(config, args))
    weights = weight_bytes(directory, prefix, itemsize, args.get("load_format"))
    if isinstance(weights, str):
        return None, weights
    weights //= memory.devices_of(args)
    share, computing = memory.utilization(args) * 100, memory.overhead(config, args)
    origin = f"{share:g}% of {gib(device_memory)} less {gib(weights)} of weights and {gib(computing)} for computing"
    return memory.kv_memory(config, args, device_memory, weights), origin
