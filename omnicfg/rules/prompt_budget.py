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

_SETTINGS = ("max_num_batched_tokens", "max_model_len", "enable_chunked_prefill")


def check_plan(plan: Plan, subject: Subject) -> Iterator[Finding]:
    """Every LLM stage that sets all three."""
    for stage in plan.stages:
        tokens, length = stage.arg("max_num_batched_tokens"), stage.arg("max_model_len")
        both = isinstance(tokens, int) and isinstance(length, int)
        if stage.stage_type == "llm" and stage.arg("enable_chunked_prefill") is False and both and 0 < tokens < length:
            settings = [stage.engine_args.items[name] for name in _SETTINGS]
            place = subject.topmost(*settings)
            where = "" if place is settings[0] else f" ({settings[0].mark})"
            yield Finding(
                place.mark,
                f"stage {stage.stage_id} may batch {tokens} tokens{where}, but without chunked prefill a prompt of "
                f"{length} has to fit in at once",
                f"Set `max_num_batched_tokens` to at least {length}, or leave `enable_chunked_prefill` on.",
                stage.stage_id,
            )
