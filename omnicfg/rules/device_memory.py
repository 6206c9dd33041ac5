"""OC601: more of a device's memory asked for than it has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeGuard

from omnicfg.diagnostics import Severity
from omnicfg.plan import Plan, StagePlan
from omnicfg.resources.placement import placement_of
from omnicfg.rule import Finding, Rule, Subject
from omnicfg.tree import Node

RULE = Rule(
    code="OC601",
    name="device-memory",
    severity=Severity.ERROR,
    what="The `gpu_memory_utilization` of all stages and replicas on one device adds up to more than 1.",
    why=(
        "Each stage reserves its share of the whole device when it starts. Nobody upstream adds the shares up, so the "
        "last stage to start fails, or waits for memory that never becomes free."
    ),
    bad="""\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 0
    devices: "0"
    gpu_memory_utilization: 0.8
  - stage_id: 1
    devices: "0"
    gpu_memory_utilization: 0.4
""",
    good="""\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 0
    devices: "0"
    gpu_memory_utilization: 0.6
  - stage_id: 1
    devices: "0"
    gpu_memory_utilization: 0.4
""",
)

_ROUNDING = 1e-9


class Share(NamedTuple):
    """What one replica of a stage reserves of a device."""

    stage: StagePlan
    replica: int
    share: float
    settings: list[Node]
    """What decides it, the setting of the file on top first."""


def check_plan(plan: Plan, subject: Subject) -> Iterator[Finding]:
    """The sum on every device, reported at the largest of the shares that were set last: in the file on top."""
    for device, shares in shares_by_device(plan, subject).items():
        total = sum(share.share for share in shares)
        if total <= 1 + _ROUNDING or len(shares) < 2:
            continue
        blamed = max(
            shares, key=lambda share: (subject.losses.rank(share.settings[0]), share.share, -share.stage.stage_id)
        )
        parts = " + ".join(f"{share.share:g} (stage {share.stage.stage_id})" for share in shares)
        yield Finding(
            blamed.settings[0].mark,
            f"device {device} is asked for {parts} = {total:g} of its memory",
            "Lower the shares to 1.0 together, or place a stage on another device.",
            blamed.stage.stage_id,
        )


def _is_share(value: object) -> TypeGuard[float]:
    """Whether this is part of a device; what is not is told by the rules about values."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 1


def shares_by_device(plan: Plan, subject: Subject) -> dict[int, list[Share]]:
    """Device → the shares reserved on it; stages that name no device or no share are left out.

    So are diffusion stages, which take what they need and reserve no share.
    """
    shares: dict[int, list[Share]] = {}
    for stage in plan.stages:
        placement = placement_of(stage) if stage.stage_type == "llm" else None
        node = stage.engine_args.items.get("gpu_memory_utilization")
        share = stage.arg("gpu_memory_utilization")
        if placement is None or node is None or not _is_share(share):
            continue
        settings = [node, stage.runtime.items["devices"], stage.runtime.items["num_replicas"]]
        settings.sort(key=subject.losses.rank, reverse=True)
        replicas = placement.replicas or (placement.ids,)
        for replica, devices in enumerate(replicas):
            for device in devices:
                shares.setdefault(device, []).append(Share(stage, replica, float(share), settings))
    return dict(sorted(shares.items()))
