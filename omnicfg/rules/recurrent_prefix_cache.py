"""OC708: a prefix cache on a model with recurrent layers, which hits less than its users expect."""

from __future__ import annotations

from collections.abc import Iterator

from omnicfg.diagnostics import Severity
from omnicfg.engine.spec import is_recurrent, text_config
from omnicfg.errors import ResolveError
from omnicfg.plan import Plan
from omnicfg.resources.checkpoint import stage_config
from omnicfg.rule import Finding, Rule, Subject

RULE = Rule(
    code="OC708",
    name="recurrent-prefix-cache",
    severity=Severity.WARNING,
    what="The prefix cache is switched on for a model with Mamba or linear-attention layers (`--model`).",
    why=(
        "vLLM makes the attention blocks of such a model as large as a recurrent state, hundreds to thousands of "
        "tokens, and a prefix hits in whole blocks only. Prompts that share less never hit, and no message says so: "
        "0 of 1,131 tokens hit in https://github.com/vllm-project/vllm/issues/51198; 2,096 and 1,920 tokens a block in "
        "https://github.com/vllm-project/vllm/issues/53749. vLLM 0.32.0 still sizes blocks in the same way."
    ),
    bad="""\
pipeline: qwen3_omni_moe_thinker_only
stages:
  - stage_id: 0
    enable_prefix_caching: true
""",
    good="""\
pipeline: qwen3_omni_moe_thinker_only
stages:
  - stage_id: 0
    enable_prefix_caching: false
""",
    config="""\
{"model_type": "qwen3_next", "num_hidden_layers": 2, "layer_types": ["linear_attention", "full_attention"]}
""",
)


def check_plan(plan: Plan, subject: Subject) -> Iterator[Finding]:
    """The first stage, whose decoder ``config.json`` describes; one that cannot be read is told elsewhere."""
    first = plan.stages[0]
    setting = first.engine_args.items.get("enable_prefix_caching")
    if subject.model is None or first.arg("enable_prefix_caching") is not True:
        return
    try:
        config = stage_config(subject.model, first)
    except ResolveError:
        return
    if config is not None and is_recurrent(text_config(config)):
        yield Finding(
            plan.setting_mark(first.stage_id, setting),
            f"the prefix cache of stage {first.stage_id} ({first.model_stage}) hits only in whole blocks, which are as "
            "large as a state of the model's recurrent layers: hundreds to thousands of tokens",
            "Keep it on only where prompts share more than the block size that vLLM logs at its start.",
            first.stage_id,
        )
