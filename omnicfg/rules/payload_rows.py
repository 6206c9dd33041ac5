"""OC503: hidden states for a later stage that the bundled engine cannot keep."""

from __future__ import annotations

from collections.abc import Iterator

from omnicfg.diagnostics import Severity
from omnicfg.errors import ResolveError
from omnicfg.payload import rows_record, rows_refusals
from omnicfg.plan import Plan
from omnicfg.resources.checkpoint import stage_config
from omnicfg.rule import Finding, Rule, Subject
from omnicfg.tree import Mark

RULE = Rule(
    code="OC503",
    name="payload-rows",
    severity=Severity.ERROR,
    what="On the bundled engine: a later stage reads hidden states of stage 0 that cannot be kept for it.",
    why=(
        "The bundled engine keeps the hidden states that a later stage reads in vLLM's paged KV cache. That needs "
        "every rank to see every token, every layer to need a block for it, and vLLM's KV connector. The settings are "
        "looked at always, the layers where `--model` names the model's directory. `serve` refuses the same in the "
        "same words."
    ),
    bad="""\
pipeline: qwen3_omni_moe
stages:
  - stage_id: 0
    devices: "0,1"
    pipeline_parallel_size: 2
    enable_prefix_caching: true
  - stage_id: 1
    enable_prefix_caching: false
""",
    good="""\
pipeline: qwen3_omni_moe
stages:
  - stage_id: 0
    devices: "0,1"
    tensor_parallel_size: 2
    enable_prefix_caching: true
  - stage_id: 1
    enable_prefix_caching: false
""",
    engine="bundled",
)


def check_plan(plan: Plan, subject: Subject) -> Iterator[Finding]:
    """What stands against rows, at the setting to blame; at the stage where that is the model."""
    if subject.engine != RULE.engine or rows_record(plan) is None:
        return
    first = plan.stages[0]
    try:
        config = None if subject.model is None else stage_config(subject.model, first)
    except ResolveError as error:
        unreadable = error.diagnostics[0]
        yield Finding(Mark(unreadable.path), unreadable.message, unreadable.help, first.stage_id)
        return
    for refusal in rows_refusals(plan, config):
        node = first.engine_args.items.get(refusal.setting) if refusal.setting else None
        mark = plan.setting_mark(first.stage_id, node)
        yield Finding(mark, refusal.why, "Change that, or serve with vLLM-Omni (`--engine vllm-omni`).", first.stage_id)
