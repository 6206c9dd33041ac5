"""OC702: a parallel size of a stage that something else decides."""

from __future__ import annotations

from collections.abc import Iterator

from omnicfg.diagnostics import Severity
from omnicfg.plan import Plan, StagePlan
from omnicfg.resources.placement import parallel_setting, sequence_parallel_size
from omnicfg.rule import Finding, Rule, Subject
from omnicfg.tree import Mapping, Node, plain

RULE = Rule(
    code="OC702",
    name="overruled-parallel-size",
    severity=Severity.WARNING,
    what=(
        "A parallel setting beside a `parallel_config` that sets the same thing otherwise; or a "
        "`sequence_parallel_size` of a diffusion stage that is not the product of its degrees."
    ),
    why=(
        "Parallel settings may stand flat in a stage or under `parallel_config`, and where they stand in both the "
        "nested one counts, whichever file it is from. `sequence_parallel_size` is never read: it is `ulysses_degree` "
        "· `ring_degree`, or `allgather_degree`. The stage then runs on fewer devices than it lists, without a word."
    ),
    bad="""\
pipeline: glm_image
async_chunk: false
stages:
  - stage_id: 0
  - stage_id: 1
    tensor_parallel_size: 4
    parallel_config: {tensor_parallel_size: 2}
""",
    good="""\
pipeline: glm_image
async_chunk: false
stages:
  - stage_id: 0
  - stage_id: 1
    parallel_config: {tensor_parallel_size: 2, ulysses_degree: 2}
""",
)


def check_plan(plan: Plan, subject: Subject) -> Iterator[Finding]:
    """Every parallel setting of every stage, but one for all stages from which a stage departs."""
    del subject
    for stage in plan.stages:
        for name, node, winner in overruled_sizes(stage):
            if isinstance(winner, int):
                reason = f"it is computed from the stage's degrees, and here it is {winner}"
                hint = "Set `ulysses_degree`, `ring_degree` or `allgather_degree` instead."
            else:
                reason = f"`parallel_config.{name}: {plain(winner)}` counts ({winner.mark})"
                hint = "Keep one of the two."
            if not _is_of_all_stages(plan, name, node):
                message = f"`{name}: {plain(node)}` of stage {stage.stage_id} does nothing: {reason}"
                yield Finding(node.mark, message, hint, stage.stage_id)


def _is_of_all_stages(plan: Plan, name: str, node: Node) -> bool:
    return name in plan.deploy.items and plan.deploy.items[name].mark == node.mark


def overruled_sizes(stage: StagePlan) -> Iterator[tuple[str, Node, Node | int]]:
    """Each parallel setting that was written and does not count: its name, its node, and what counts instead."""
    config = stage.engine_args.items.get("parallel_config")
    for name, nested in config.items.items() if isinstance(config, Mapping) else ():
        flat = stage.engine_args.items.get(name)
        if isinstance(name, str) and flat is not None and plain(nested) not in (None, plain(flat)):
            yield name, flat, nested
    written = parallel_setting(stage, "sequence_parallel_size")
    if stage.stage_type == "diffusion" and written is not None:
        size = sequence_parallel_size(stage)
        if size is not None and plain(written) != size:
            yield "sequence_parallel_size", written, size
