"""OC705: parallel sizes of a diffusion stage that exclude each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from omnicfg.diagnostics import Severity
from omnicfg.plan import Plan, StagePlan
from omnicfg.resources.placement import parallel_setting
from omnicfg.rule import Finding, Rule, Subject
from omnicfg.tree import Node, plain

RULE = Rule(
    code="OC705",
    name="parallel-combination",
    severity=Severity.ERROR,
    what=(
        "A diffusion stage with all-gather attention beside Ulysses or ring attention, or with HSDP beside tensor, "
        "data, pipeline or expert parallelism."
    ),
    why=(
        "The ways of splitting a diffusion model share the same devices, and these pairs cannot: vLLM-Omni refuses "
        "them when it builds the stage's configuration."
    ),
    bad="""\
pipeline: glm_image
async_chunk: false
stages:
  - stage_id: 0
  - stage_id: 1
    allgather_degree: 2
    ulysses_degree: 2
""",
    good="""\
pipeline: glm_image
async_chunk: false
stages:
  - stage_id: 0
  - stage_id: 1
    ulysses_degree: 2
    ring_degree: 2
""",
)

_BESIDE_ALLGATHER: Final = ("ulysses_degree", "ring_degree")
_BESIDE_HSDP: Final = (
    "tensor_parallel_size",
    "data_parallel_size",
    "pipeline_parallel_size",
    "enable_expert_parallel",
)


def check_plan(plan: Plan, subject: Subject) -> Iterator[Finding]:
    """Every diffusion stage."""
    for stage in plan.stages:
        if stage.stage_type == "diffusion":
            yield from _excluded(stage, "allgather_degree", _BESIDE_ALLGATHER, subject)
            yield from _excluded(stage, "use_hsdp", _BESIDE_HSDP, subject)


def _excluded(stage: StagePlan, name: str, others: tuple[str, ...], subject: Subject) -> Iterator[Finding]:
    setting = parallel_setting(stage, name)
    if setting is None or not _is_in_use(setting):
        return
    for other in others:
        node = parallel_setting(stage, other)
        if node is not None and _is_in_use(node):
            one, two = (other, node), (name, setting)
            if subject.topmost(node, setting) is setting:
                one, two = two, one
            yield Finding(
                one[1].mark,
                f"`{one[0]}: {_shown(one[1])}` of stage {stage.stage_id} cannot stand beside "
                f"`{two[0]}: {_shown(two[1])}` ({two[1].mark})",
                "Keep one of the two.",
                stage.stage_id,
            )


def _is_in_use(node: Node) -> bool:
    value = plain(node)
    return value is True or (isinstance(value, int) and value > 1)


def _shown(node: Node) -> str:
    return str(plain(node)).lower()
