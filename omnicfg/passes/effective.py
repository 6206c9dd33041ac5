"""The optional last pass: what vLLM itself makes of the engine args that a plan leaves unset.

Defaults are those of vLLM's engine args; some of them vLLM replaces at start by what suits the stage
(``resolved`` in ``schemas/vllm``). Where that depends on the model or the machine, the value stays unset and
:func:`why_unset` says what decides it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from omnicfg.catalog.vllm_args import DEFAULT_VLLM, engine_args, resolved_defaults
from omnicfg.plan import Plan, StagePlan
from omnicfg.tree import Layer, LayerKind, Mark, Node, grow, over, plain

_DIFFUSION: Final = "diffusion"  # its engine is vLLM-Omni's own: vLLM's args do not apply
_EXECUTION_TYPE: Final = {"ar": "llm_ar", "generation": "llm_generation"}
_SOURCE: Final = "vllm/engine/arg_utils.py"

# Not left to vLLM's defaults: the model is what is served, and vLLM-Omni picks both classes by the kind of stage.
_NEVER_DEFAULT: Final = frozenset({"model", "scheduler_cls", "worker_cls"})

# Where vLLM's own tables apply; on the other platforms a plugin has the last word on what depends on the platform.
_OWN_PLATFORMS: Final = frozenset({"cuda", "rocm"})


def effective(plan: Plan, version: str = DEFAULT_VLLM) -> Plan:
    """The plan with every engine arg of its LLM stages that is unset filled in with the default of vLLM ``version``."""
    tree = plan.tree.copy()
    stages = plan.tree.sequence("stages").copy()
    stages.items = [_filled(stage, plan.platform, version) for stage in plan.stages]
    tree.put("stages", stages)
    return Plan(tree, plan.stage_marks)


def _filled(stage: StagePlan, platform: str, version: str) -> Node:
    if stage.stage_type == _DIFFUSION:
        return stage.tree
    args = stage.engine_args.copy()
    for name in default_args(version):
        default = default_of(name, stage, platform, version)
        given = args.items.get(name)
        if given is None:
            args.put(name, default)
        elif plain(given) is None and plain(default) is not None:
            args.put(name, over(default, given, "null leaves it to vLLM"))
    tree = stage.tree.copy()
    tree.put("engine_args", args)
    return tree


def default_args(version: str = DEFAULT_VLLM) -> list[str]:
    """The engine args that take vLLM's default where a stage leaves them unset."""
    return [name for name in engine_args(version) if name not in _NEVER_DEFAULT]


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


def _outcome(record: Mapping[str, Any], stage: StagePlan, platform: str) -> tuple[Any, str]:
    """The value for this stage on this platform and the case in words; ``None`` where a profile does not tell.

    A profile tells the kind of stage and the platform. If any other condition leads to another value, none is given.
    """
    ordinary, when, cases = record["value"], record["when"], record.get("cases") or ()
    by_stage = record.get("by_stage") or {}
    kind = _EXECUTION_TYPE.get(stage.worker_type or "")
    if kind in by_stage:
        return by_stage[kind], when
    by_platform = {case["platform"]: case for case in cases if set(case) == {"when", "value", "platform"}}
    if platform in by_platform:
        return by_platform[platform]["value"], by_platform[platform]["when"]
    open_cases = [case for case in cases if case not in by_platform.values()]
    plugin_decides = bool(by_platform) and platform not in _OWN_PLATFORMS
    if ordinary is None or (not open_cases and not plugin_decides):
        return ordinary, when
    outcomes = [
        f"{json.dumps(case['value'])}: {case['when']}" for case in [{"value": ordinary, "when": when}, *open_cases]
    ]
    return None, "; ".join(outcomes)


def _mark(source: str) -> Mark:
    """``vllm/engine/arg_utils.py:2210`` as a place."""
    file, _, line = source.rpartition(":")
    return Mark(file, int(line), 1, int(line), 1) if line.isdecimal() else Mark(source)
