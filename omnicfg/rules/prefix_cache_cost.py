"""OC604: what a prefix cache that is on takes of the host's memory."""

from __future__ import annotations

from collections.abc import Iterator

from omnicfg.catalog.capabilities import entry_for, record_of
from omnicfg.diagnostics import Severity
from omnicfg.evidence import host_memory_text
from omnicfg.plan import Plan
from omnicfg.rule import Finding, Rule, Subject, prefix_caching
from omnicfg.tree import plain

RULE = Rule(
    code="OC604",
    name="prefix-cache-cost",
    severity=Severity.NOTE,
    what="A stage's prefix cache is on, and its cost in host memory was measured.",
    why=(
        "vLLM-Omni mirrors the hidden states of cached tokens in the host's memory, as many rows as the KV cache has "
        "slots. That is no part of `gpu_memory_utilization`, it grows with the KV cache, and it is seen only when the "
        "machine runs out. The figures are those of the model's record."
    ),
    bad="""\
pipeline: qwen3_omni_moe
stages:
  - stage_id: 0
    enable_prefix_caching: true
  - stage_id: 1
    enable_prefix_caching: false
""",
    good="""\
pipeline: qwen3_omni_moe
stages:
  - stage_id: 0
    enable_prefix_caching: false
  - stage_id: 1
    enable_prefix_caching: false
""",
)


def check_plan(plan: Plan, subject: Subject) -> Iterator[Finding]:
    """Every stage whose cache is on and whose record knows what that costs."""
    for stage in plan.stages:
        if not prefix_caching(stage):
            continue
        entry = entry_for(plan.pipeline, stage.model_stage, "prefix_caching", subject.situation(plan, stage))
        cost = None if entry is None else host_memory_text(entry)
        if entry is None or cost is None:
            continue
        node = stage.engine_args.items.get("enable_prefix_caching")
        record = record_of(plan.pipeline)
        yield Finding(
            plan.setting_mark(stage.stage_id, None if node is None or plain(node) is None else node),
            f"the prefix cache of stage {stage.stage_id} ({stage.model_stage}) costs {cost}, as measured for "
            f"{record['title'] if record else plan.pipeline} [{entry['source']}]",
            f"`stages.{stage.stage_id}.enable_prefix_caching: false`, in an overlay or as `--set`, turns it off.",
            stage.stage_id,
        )
