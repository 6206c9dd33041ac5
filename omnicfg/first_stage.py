"""What the bundled engine asks of a plan's first stage, for which vLLM's own server answers.

Needs neither vLLM nor torch.
"""

from __future__ import annotations

from collections.abc import Iterator

from omnicfg.plan import Plan, StagePlan


def first_stage_refusals(plan: Plan) -> Iterator[str]:
    """Why vLLM's own server cannot be a plan's first stage, in words for people."""
    first = plan.stages[0]
    if not _answers_in_text(first):
        yield f"stage {first.stage_id} ({first.model_stage}) of pipeline {plan.pipeline} does not answer in text"
    if first.arg("model_path_resolver"):
        yield f"pipeline {plan.pipeline} finds its checkpoint by code of vLLM-Omni"


def _answers_in_text(stage: StagePlan) -> bool:
    final_output, kind = stage.tree.value("final_output"), stage.tree.value("final_output_type")
    return stage.worker_type == "ar" and bool(final_output) and kind == "text"
