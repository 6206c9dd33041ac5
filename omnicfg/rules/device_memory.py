"""OC601: more of a device's memory asked for than it has."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple, TypeGuard

from omnicfg.catalog.vllm_args import engine_args
from omnicfg.diagnostics import Severity
from omnicfg.plan import Plan, StagePlan
from omnicfg.resources.placement import first_devices, placement_of
from omnicfg.rule import DEFAULT_ENGINE, Finding, Rule, Subject
from omnicfg.tree import Node

RULE = Rule(
    code="OC601",
    name="device-memory",
    severity=Severity.ERROR,
    what="The `gpu_memory_utilization` of all stages and replicas on one device adds up to more than 1.",
    why=(
        "Each stage reserves its share of the whole device when it starts. Nobody upstream adds the shares up, so the "
        "last stage to start fails, or waits for memory that never becomes free. A stage without a share takes vLLM's "
        "default, nearly all of the device, and one without devices starts on the first: where a profile sets shares "
        "for some stages and these make it too much, that is a warning."
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
    share: float
    settings: list[Node]
    """What decides it, the setting of the file on top first."""


def check_plan(plan: Plan, subject: Subject) -> Iterator[Finding]:
    """The sum on every device, reported at the largest of the shares that were set last: in the file on top."""
    found = list(_over_what_is_set(plan, subject))
    yield from found or _over_what_is_left_open(plan, subject)


def _over_what_is_set(plan: Plan, subject: Subject) -> Iterator[Finding]:
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
        for device in itertools.chain.from_iterable(replicas):
            shares.setdefault(device, []).append(Share(stage, float(share), settings))
    return dict(sorted(shares.items()))


class Taken(NamedTuple):
    """What a stage takes of its devices, set or not; ``why`` says what is not."""

    stage: StagePlan
    devices: tuple[int, ...]
    share: float
    is_set: bool
    why: str


def _over_what_is_left_open(plan: Plan, subject: Subject) -> Iterator[Finding]:
    """The first device that is asked for too much by a stage that says nothing of its share, or of its devices.

    Only vLLM-Omni starts every stage on vLLM, and a profile that sets no share at all leaves them to be seen to later.
    """
    if subject.engine != DEFAULT_ENGINE:
        return
    taken = list(_taken(plan, subject.vllm_version))
    for device in sorted({device for each in taken for device in each.devices}):
        here = [each for each in taken if device in each.devices]
        total = sum(each.share for each in here)
        blamed = next((each for each in reversed(here) if each.why), None)
        if blamed is None or total <= 1 + _ROUNDING or len(here) < 2 or not any(each.is_set for each in here):
            continue
        parts = " + ".join(f"{each.share:g} (stage {each.stage.stage_id}{each.why})" for each in here)
        stage_id = blamed.stage.stage_id
        key = "devices" if blamed.is_set else "gpu_memory_utilization"
        yield Finding(
            plan.stage_mark(stage_id),
            f"device {device} is asked for {parts} = {total:g} of its memory",
            f"Set `{key}` of stage {stage_id}, so that the shares of a device are 1.0 together.",
            stage_id,
            severity=Severity.WARNING,
        )
        return


def _taken(plan: Plan, version: str) -> Iterator[Taken]:
    """Every LLM stage but those whose cache has a size in bytes; wrong values are told by other rules."""
    default = engine_args(version)["gpu_memory_utilization"]["default"]
    for stage in plan.stages:
        if stage.stage_type != "llm" or stage.arg("kv_cache_memory_bytes") is not None:
            continue
        share = stage.arg("gpu_memory_utilization")
        why = ", vLLM's default" if share is None else ""
        placement = placement_of(stage)
        devices = first_devices(stage)
        if placement is not None and placement.replicas is not None:
            devices = tuple(device for replica in placement.replicas for device in replica)
        elif devices:
            why += ", which names no device"
        if share is None or _is_share(share):
            yield Taken(stage, devices, float(default if share is None else share), share is not None, why)
