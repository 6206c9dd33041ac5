"""OC602: a device list that does not fit the stage's parallel sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from omnicfg.diagnostics import Severity
from omnicfg.placement import Placement, is_device_number, placement_of
from omnicfg.plan import Plan, StagePlan
from omnicfg.rule import Finding, Rule, Subject
from omnicfg.tree import plain

RULE = Rule(
    code="OC602",
    name="device-count",
    severity=Severity.ERROR,
    what="`devices` lists neither TP · PP · DP devices (one replica) nor that many for each replica, or is no list.",
    why=(
        "A tensor-parallel size that is set for all stages without their devices is the usual cause; the worker then "
        "dies with `local rank out of bounds` long after start. One device number per process has to be listed."
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


def check_plan(plan: Plan, subject: Subject) -> Iterator[Finding]:
    """Every stage that names its devices."""
    del subject
    for stage in plan.stages:
        node = stage.runtime.items.get("devices")
        if node is None:
            continue
        devices = plain(node)
        problem = _malformed(devices) if isinstance(devices, str) else None
        placement = placement_of(stage)
        if problem:
            yield Finding(node.mark, f"`devices: {devices}` of stage {stage.stage_id} {problem}", _LIST, stage.stage_id)
        elif placement is not None and placement.replicas is None:
            yield Finding(node.mark, _message(stage, placement), _help(placement), stage.stage_id)


_LIST = 'Write the numbers of different devices, such as `"0,1"`.'


def _malformed(devices: str) -> str | None:
    words = [word.strip() for word in devices.split(",")]
    wrong = next((word for word in words if not is_device_number(word)), None)
    if wrong is not None:
        return f"holds `{wrong}`, which is no device number"
    twice = next((word for word, count in Counter(words).items() if count > 1), None)
    return f"lists device {twice} twice" if twice else None


def _message(stage: StagePlan, placement: Placement) -> str:
    sizes = [
        f"{name} {value}"
        for name, value in (
            ("TP", stage.arg("tensor_parallel_size") or 1),
            ("PP", stage.arg("pipeline_parallel_size") or 1),
            ("DP", stage.arg("data_parallel_size_local") or stage.arg("data_parallel_size") or 1),
        )
    ]
    replicas = f" for each of {placement.num_replicas} replicas" if placement.num_replicas > 1 else ""
    return (
        f"stage {stage.stage_id} lists {len(placement.ids)} device(s) and needs {placement.per_replica}"
        f" ({' · '.join(sizes)}){replicas}"
    )


def _help(placement: Placement) -> str:
    pool = placement.num_replicas * placement.per_replica
    if placement.num_replicas == 1:
        return f"List {placement.per_replica} device(s), or change the parallel sizes."
    template = ",".join(str(device) for device in range(placement.per_replica))
    return f'List all {pool} devices, or the template `"{template}"` that each replica repeats.'
