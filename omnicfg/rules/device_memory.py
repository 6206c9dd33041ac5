"""OC601: more of a device's memory asked for than it has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from omnicfg.diagnostics import Severity
from omnicfg.placement import placement_of
from omnicfg.plan import Plan, StagePlan
from omnicfg.rule import Finding, Rule, Subject
from omnicfg.tree import Mark, Node

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
    node: Node


def check_plan(plan: Plan, subject: Subject) -> Iterator[Finding]:
    """The sum on every device, reported at the largest share (of those that the profile sets itself, if any)."""
    del subject
    for device, shares in shares_by_device(plan).items():
        total = sum(share.share for share in shares)
        if total <= 1 + _ROUNDING or len(shares) < 2:
            continue
        blamed = max(shares, key=lambda share: (_is_own(plan, share), share.share, -share.stage.stage_id))
        parts = " + ".join(f"{share.share:g} (stage {share.stage.stage_id})" for share in shares)
        yield Finding(
            _mark(plan, blamed),
            f"device {device} is asked for {parts} = {total:g} of its memory",
            "Lower the shares to 1.0 together, or place a stage on another device.",
            blamed.stage.stage_id,
        )


def _settings(share: Share) -> list[Node]:
    """What decides a share, the share itself first."""
    runtime = share.stage.runtime
    return [share.node, runtime.items["devices"], runtime.items["num_replicas"]]


def _is_own(plan: Plan, share: Share) -> bool:
    return any(node.mark.file == plan.profile for node in _settings(share))


def _mark(plan: Plan, share: Share) -> Mark:
    """The setting that lies in the profile itself, not in its base: that is where the sum went wrong."""
    own = [node.mark for node in _settings(share) if node.mark.file == plan.profile]
    return own[0] if own else share.node.mark


def shares_by_device(plan: Plan) -> dict[int, list[Share]]:
    """Device → the shares reserved on it; stages that name no device or no share are left out."""
    shares: dict[int, list[Share]] = {}
    for stage in plan.stages:
        placement = placement_of(stage)
        node = stage.engine_args.items.get("gpu_memory_utilization")
        share = stage.arg("gpu_memory_utilization")
        if placement is None or node is None or not isinstance(share, int | float) or isinstance(share, bool):
            continue
        replicas = placement.replicas or (placement.ids,)
        for replica, devices in enumerate(replicas):
            for device in devices:
                shares.setdefault(device, []).append(Share(stage, replica, float(share), node))
    return dict(sorted(shares.items()))
