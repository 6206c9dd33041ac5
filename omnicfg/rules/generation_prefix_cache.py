"""OC707: a prefix cache on a stage that generates no text."""

from __future__ import annotations

from collections.abc import Iterator

from omnicfg.catalog.capabilities import entry_for
from omnicfg.catalog.upstream import VLLM_OMNI
from omnicfg.diagnostics import Severity
from omnicfg.origins import told_to_set
from omnicfg.plan import Plan
from omnicfg.rule import DEFAULT_ENGINE, Finding, Rule, Subject, prefix_caching

RULE = Rule(
    code="OC707",
    name="generation-prefix-cache",
    severity=Severity.WARNING,
    what="The prefix cache is on for a generation stage (a vocoder, a decoder) of which no record says anything.",
    why=(
        "Such a stage computes its output in one pass from codes that no two requests share, so a cache keeps blocks "
        "and mirrors hidden states that nobody will ask for, and layouts of KV caches that only such stages have can "
        "fail in it. vLLM-Omni leaves it off where nobody sets it; a pipeline-wide `enable_prefix_caching: true` turns "
        "it on here as well. What a model's record says of the stage is OC501's."
    ),
    bad="""\
pipeline: covo_audio
async_chunk: false
enable_prefix_caching: true
""",
    good="""\
pipeline: covo_audio
async_chunk: false
stages:
  - stage_id: 0
    enable_prefix_caching: true
""",
)


def check_plan(plan: Plan, subject: Subject) -> Iterator[Finding]:
    """Every generation stage whose cache somebody turned on."""
    if subject.engine != DEFAULT_ENGINE:
        return
    for stage in plan.stages:
        if stage.worker_type != "generation" or not prefix_caching(stage):
            continue
        if entry_for(plan.pipeline, stage.model_stage, "prefix_caching", subject.situation(plan, stage)) is None:
            node = stage.engine_args.items["enable_prefix_caching"]
            yield Finding(
                node.mark,
                f"the prefix cache of stage {stage.stage_id} ({stage.model_stage}) is on, but the stage generates no "
                f"text, and vllm-omni {VLLM_OMNI} leaves it off by itself [vllm_omni/engine/stage_init_utils.py]",
                f"{told_to_set('enable_prefix_caching', 'false', node, stage.stage_id)}.",
                stage.stage_id,
            )
