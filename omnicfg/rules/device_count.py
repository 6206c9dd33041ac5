"""OC602: a device list that does not fit the stage's parallel sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from omnicfg.diagnostics import Severity
from omnicfg.plan import Plan, StagePlan
from omnicfg.resources.placement import (
    PARALLEL_SIZES,
    Placement,
    is_device_number,
    is_missplit,
    nodes_of,
    parallel_setting,
    parallel_sizes,
    placement_of,
)
from omnicfg.rule import Finding, Rule, Subject
from omnicfg.rules.overruled_parallel_size import overruled_sizes
from omnicfg.tree import LayerKind, plain

RULE = Rule(
    code="OC602",
    name="device-count",
    severity=Severity.ERROR,
    what=(
        "`devices` lists neither as many devices as the product of the stage's parallel sizes (one replica) nor that "
        "many for each replica, or is no list."
    ),
    why=(
        "A parallel size that is set for all stages without their devices is the usual cause; the worker then dies "
        "with `local rank out of bounds` long after start. One device number per process has to be listed. TP, PP and "
        "DP count for every stage; on a diffusion stage SP (Ulysses · ring, or all-gather) and CFG do as well, and "
        "devices that it lists beyond their product stay idle, which is a warning. On all others "
        "`prefill_context_parallel_size` (PCP) does, except where vLLM-Omni divides a list among several replicas: "
        "each of them then gets too few, whatever is listed."
    ),
    bad="""\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 0
    devices: "0"
    tensor_parallel_size: 2
""",
    good="""\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 0
    devices: "0,1"
    tensor_parallel_size: 2
""",
)

_PIPELINE_WIDE = ("data_parallel_size", "pipeline_parallel_size")


def check_plan(plan: Plan, subject: Subject) -> Iterator[Finding]:
    """Every stage that names its devices. A size that is set for all stages is reported once, where it is set."""
    of_all: dict[str, list[str]] = {}
    for stage in plan.stages:
        node = stage.runtime.items.get("devices")
        if node is None:
            continue
        devices = plain(node)
        problem = _malformed(devices) if isinstance(devices, str) else None
        placement = placement_of(stage)
        if problem:
            written = f"devices: {devices}" if devices.strip() else 'devices: ""'
            yield Finding(node.mark, f"`{written}` of stage {stage.stage_id} {problem}", _LIST, stage.stage_id)
        elif placement is None or placement.replicas is not None or _is_told_already(stage):
            continue
        elif wide := _size_of_all_stages(plan, stage, placement):
            of_all.setdefault(wide, []).append(_message(stage, placement))
        else:
            severity = Severity.WARNING if _stay_idle(stage, placement) else None
            sizes = (parallel_setting(stage, name) for name in PARALLEL_SIZES)
            place = subject.topmost(node, stage.runtime.items.get("num_replicas"), *sizes)
            where = "" if place is node else f" ({node.mark})"
            yield Finding(
                place.mark,
                _message(stage, placement, where),
                _help(stage, placement),
                stage.stage_id,
                severity=severity,
            )
    for name, messages in of_all.items():
        size = plan.deploy.items[name]
        message = f"`{name}: {plain(size)}` is for every stage, but {'; '.join(messages)}"
        yield Finding(size.mark, message, f"Set `{name}` only for the stages that have the devices, or list more.")


_LIST = 'Write the numbers of different devices, such as `"0,1"`.'


def _malformed(devices: str) -> str | None:
    if not devices.strip():
        return "names no device"
    words = [word.strip() for word in devices.split(",")]
    wrong = next((word for word in words if not is_device_number(word)), None)
    if wrong is not None:
        return f"holds `{wrong}`, which is no device number"
    twice = next((word for word, count in Counter(words).items() if count > 1), None)
    return f"lists device {twice} twice" if twice else None


def _is_told_already(stage: StagePlan) -> bool:
    """Whether a size that does not count explains the devices: then that size is the mistake."""
    return any(name == "sequence_parallel_size" for name, _, _ in overruled_sizes(stage))


def _size_of_all_stages(plan: Plan, stage: StagePlan, placement: Placement) -> str | None:
    """The pipeline-wide size without which the list would fit."""
    for name in _PIPELINE_WIDE:
        node, wide = parallel_setting(stage, name), plan.deploy.items[name]
        if node is None or wide.layer.kind is LayerKind.DEFAULT or node.mark != wide.mark:
            continue
        per_replica = placement.per_replica // int(plain(node))
        if len(placement.ids) in (per_replica, per_replica * placement.num_replicas):
            return name
    return None


def _stay_idle(stage: StagePlan, placement: Placement) -> bool:
    return (
        stage.stage_type == "diffusion" and placement.num_replicas == 1 and len(placement.ids) > placement.per_replica
    )


def _message(stage: StagePlan, placement: Placement, where: str = "") -> str:
    counted = parallel_sizes(stage) or {}
    nodes = nodes_of(stage, counted)
    sizes = " · ".join(f"{name} {size}" for name, size in counted.items())
    sizes += f", on {nodes} nodes" if nodes > 1 else ""
    replicas = f" for each of {placement.num_replicas} replicas" if placement.num_replicas > 1 else ""
    return (
        f"stage {stage.stage_id} lists {len(placement.ids)} device(s){where} and needs {placement.per_replica}"
        f" ({sizes}){replicas}"
    )


def _help(stage: StagePlan, placement: Placement) -> str:
    if is_missplit(stage):
        return (
            "vLLM-Omni does not count PCP where it divides devices among replicas, so no list fits: "
            "set `num_replicas: 1` or `prefill_context_parallel_size: 1`."
        )
    pool = placement.num_replicas * placement.per_replica
    if placement.num_replicas == 1:
        return f"List {placement.per_replica} device(s), or change the parallel sizes."
    template = ",".join(str(device) for device in range(placement.per_replica))
    return f'List all {pool} devices, or the template `"{template}"` that each replica repeats.'
