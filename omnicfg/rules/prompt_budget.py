"""OC605: a token budget that no prompt of full length fits into."""

from __future__ import annotations

from collections.abc import Iterator

from omnicfg.diagnostics import Severity
from omnicfg.plan import Plan
from omnicfg.rule import Finding, Rule, Subject

RULE = Rule(
    code="OC605",
    name="prompt-budget",
    severity=Severity.ERROR,
    what="`max_num_batched_tokens` is smaller than `max_model_len`, and `enable_chunked_prefill` is off.",
    why=(
        "Without chunked prefill a prompt has to be computed in one step, so vLLM refuses a budget below the longest "
        "prompt when it builds its scheduler, after the profile was accepted."
    ),
    bad="""\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 0
    enable_chunked_prefill: false
    max_num_batched_tokens: 4096
    max_model_len: 8192
""",
    good="""\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 0
    enable_chunked_prefill: false
    max_num_batched_tokens: 8192
    max_model_len: 8192
""",
)


def check_plan(plan: Plan, subject: Subject) -> Iterator[Finding]:
    """Every LLM stage that sets all three."""
    del subject
    for stage in plan.stages:
        tokens, length = stage.arg("max_num_batched_tokens"), stage.arg("max_model_len")
        both = isinstance(tokens, int) and isinstance(length, int)
        if stage.stage_type == "llm" and stage.arg("enable_chunked_prefill") is False and both and 0 < tokens < length:
            yield Finding(
                stage.engine_args.items["max_num_batched_tokens"].mark,
                f"stage {stage.stage_id} may batch {tokens} tokens, but without chunked prefill a prompt of {length} "
                "has to fit in at once",
                f"Set `max_num_batched_tokens` to at least {length}, or leave `enable_chunked_prefill` on.",
                stage.stage_id,
            )
