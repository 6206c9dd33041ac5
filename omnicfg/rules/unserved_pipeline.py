"""OC505: a pipeline whose first stage the bundled engine does not serve."""

from __future__ import annotations

from collections.abc import Iterator

from omnicfg.diagnostics import Severity
from omnicfg.first_stage import first_stage_refusals
from omnicfg.plan import Plan
from omnicfg.rule import Finding, Rule, Subject

RULE = Rule(
    code="OC505",
    name="unserved-pipeline",
    severity=Severity.ERROR,
    what="On the bundled engine: a pipeline whose first stage makes no text, or whose checkpoint only vLLM-Omni finds.",
    why=(
        "The bundled engine is vLLM's own server with a plugin, and that server answers for the first stage: in text, "
        "from the model's directory. Pipelines that begin with speech or pictures, and those whose checkpoint is put "
        "together by code of vLLM-Omni, need vLLM-Omni. `serve` refuses the same in the same words."
    ),
    bad="""\
pipeline: qwen3_tts
stages:
  - stage_id: 0
    max_num_seqs: 8
""",
    good="""\
pipeline: qwen3_omni_moe_thinker_only
stages:
  - stage_id: 0
    max_num_seqs: 8
""",
    engine="bundled",
)


def check_plan(plan: Plan, subject: Subject) -> Iterator[Finding]:
    """One finding for each reason, at the first stage."""
    if subject.engine != RULE.engine:
        return
    first = plan.stages[0]
    for why in first_stage_refusals(plan):
        mark = plan.setting_mark(first.stage_id, None)
        yield Finding(mark, why, "Serve it with vLLM-Omni (`--engine vllm-omni`).", first.stage_id)
