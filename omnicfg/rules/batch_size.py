"""OC603: a token budget smaller than the number of sequences."""

from __future__ import annotations

from collections.abc import Iterator

from omnicfg.diagnostics import Severity
from omnicfg.plan import Plan
from omnicfg.rule import Finding, Rule, Subject

RULE = Rule(
    code="OC603",
    name="batch-size",
    severity=Severity.ERROR,
    what="`max_num_batched_tokens` is smaller than `max_num_seqs`.",
    why=(
        "Each running sequence needs at least one token of a step's budget. vLLM refuses the combination when it "
        "builds its scheduler, after the profile was accepted."
    ),
    bad="""\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 0
    max_num_batched_tokens: 16
    max_num_seqs: 64
""",
    good="""\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 0
    max_num_batched_tokens: 64
    max_num_seqs: 64
""",
)


def check_plan(plan: Plan, subject: Subject) -> Iterator[Finding]:
    """Every LLM stage that sets both."""
    del subject
    for stage in plan.stages:
        tokens, sequences = stage.arg("max_num_batched_tokens"), stage.arg("max_num_seqs")
        both = isinstance(tokens, int) and isinstance(sequences, int)
        if stage.stage_type == "llm" and both and 0 < tokens < sequences:
            yield Finding(
                stage.engine_args.items["max_num_batched_tokens"].mark,
                f"stage {stage.stage_id} may batch {tokens} tokens but run {sequences} sequences",
                f"Set `max_num_batched_tokens` to at least {sequences}.",
                stage.stage_id,
            )
