"""The optional last pass: what vLLM itself makes of the engine args that a plan leaves unset.

Defaults are those of vLLM's engine args; some of them vLLM replaces at start by what suits the stage
(``resolved`` in ``schemas/vllm``). Where that depends on the model or the machine, the value stays unset and
:func:`why_unset` says what decides it.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from typing import Any

from omnicfg.catalog.vllm_args import DEFAULT_VLLM, engine_args, resolved_defaults
from omnicfg.plan import Plan, StagePlan
from omnicfg.tree import Layer, LayerKind, Mapping, Mark, Node, Sequence, grow, over, plain

_DIFFUSION = "diffusion"  # its engine is vLLM-Omni's own: vLLM's args do not apply
_EXECUTION_TYPE = {"ar": "llm_ar", "generation": "llm_generation"}
_SOURCE = "vllm/engine/arg_utils.py"


def effective(plan: Plan, version: str = DEFAULT_VLLM) -> Plan:
    """The plan with every engine arg of its LLM stages that is unset filled in with the default of vLLM ``version``."""
    tree = plan.tree.copy()
    stages = plan.tree.sequence("stages").copy()
    stages.items = [_filled(stage, plan.platform, version) for stage in plan.stages]
    tree.put("stages", stages)
    return Plan(tree)


def _filled(stage: StagePlan, platform: str, version: str) -> Node:
    if stage.stage_type == _DIFFUSION:
        return stage.tree
    args = stage.engine_args.copy()
    for name in engine_args(version):
        default = default_of(name, stage, platform, version)
        given = args.items.get(name)
        if given is None:
            args.put(name, default)
        elif plain(given) is None and plain(default) is not None:
            args.put(name, over(default, given, "null leaves it to vLLM"))
    tree = stage.tree.copy()
    tree.put("engine_args", args)
    return tree


def default_of(name: str, stage: StagePlan, platform: str, version: str = DEFAULT_VLLM) -> Node:
    """vLLM's default of an engine arg for a stage: what it declares, below what it puts in its place at start."""
    layer = Layer(LayerKind.ENGINE_DEFAULT, version)
    declared = grow(engine_args(version)[name]["default"], layer, Mark(_SOURCE))
    record = resolved_defaults(version).get(name)
    if record is None or plain(declared) is not None:
        return declared
    value, when = _outcome(record, stage, platform)
    return over(grow(value, layer, _mark(record["source"])), declared, f"decided at start: {when}")


def why_unset(name: str, stage: StagePlan, platform: str, version: str = DEFAULT_VLLM) -> str | None:
    """What decides an engine arg that has no default of its own; ``None`` where nothing does."""
    record = resolved_defaults(version).get(name)
    if record is None:
        return None
    value, when = _outcome(record, stage, platform)
    return when if value is None else None


def _outcome(record: MappingOf[str, Any], stage: StagePlan, platform: str) -> tuple[Any, str]:
    """The value for this stage on this platform (``None``: not known from the profile), and the case in words."""
    kind = _EXECUTION_TYPE.get(stage.worker_type or "")
    by_stage = record.get("by_stage") or {}
    if by_stage:
        return by_stage.get(kind), record["when"]
    for case in record.get("cases") or ():
        if case.get("keys") == {"platform": platform}:
            return case["value"], case["when"]
    return record["value"], record["when"]


def _mark(source: str) -> Mark:
    """``vllm/engine/arg_utils.py:2210`` as a place."""
    file, _, line = source.rpartition(":")
    return Mark(file, int(line), 1, int(line), 1) if line.isdecimal() else Mark(source)
