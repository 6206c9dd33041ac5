"""OC308: a setting that the pipeline's topology overrules."""

from __future__ import annotations

from collections.abc import Iterator

from omnicfg.diagnostics import Severity
from omnicfg.losses import same, shown
from omnicfg.origins import is_written
from omnicfg.plan import Plan
from omnicfg.rule import Finding, Rule, Subject
from omnicfg.tree import LayerKind, Mapping, Node, Sequence

RULE = Rule(
    code="OC308",
    name="overruled-by-topology",
    severity=Severity.WARNING,
    what="A setting that never counts, because the pipeline's topology fixes it to another value.",
    why=(
        "A pipeline fixes some sampling parameters of its stages (`detokenize` of a talker, tokens that must end its "
        "output) and how its stages hand on their KV cache, and a pipeline of one stage never works in chunks. What a "
        "profile says instead is dropped without a word."
    ),
    bad="""\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 0
    default_sampling_params: {detokenize: true}
""",
    good="""\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 0
    default_sampling_params: {temperature: 0.9}
""",
)


def check_plan(plan: Plan, subject: Subject) -> Iterator[Finding]:
    """The engine args and sampling parameters of every stage, and the profile's own fields."""
    del subject
    blocks: list[tuple[int | None, Mapping]] = [(None, plan.deploy)]
    for stage in plan.stages:
        blocks.append((stage.stage_id, stage.engine_args))
        sampling = stage.extras.items.get("default_sampling_params")
        if isinstance(sampling, Mapping):
            blocks.append((stage.stage_id, sampling))
    for stage_id, block in blocks:
        for key, node in block.items.items():
            loser = _overruled(node)
            if loser is not None and is_written(loser) and not same(loser, node):
                where = "" if stage_id is None else f" of stage {stage_id}"
                yield Finding(
                    loser.mark,
                    f"`{key}: {shown(key, loser)}`{where} never counts: "
                    f"the topology of {plan.pipeline} fixes it to `{shown(key, node)}`",
                    "Remove it; a profile cannot change it.",
                    stage_id,
                )


def _overruled(node: Node) -> Node | None:
    """What a value of the topology goes over; lists (`stop_token_ids`) are united instead."""
    if node.layer.kind is not LayerKind.TOPOLOGY or isinstance(node, Sequence) or not node.beaten:
        return None
    return node.beaten[0].node
