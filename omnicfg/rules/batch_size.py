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
    """Every stage that sets both."""
    for stage in plan.stages:
        tokens, sequences = stage.arg("max_num_batched_tokens"), stage.arg("max_num_seqs")
        both = isinstance(tokens, int) and isinstance(sequences, int)
        if both and 0 < tokens < sequences:
            budget, count = (stage.engine_args.items[name] for name in ("max_num_batched_tokens", "max_num_seqs"))
            place = subject.topmost(budget, count)
            where = "" if place is budget else f" ({budget.mark})"
            yield Finding(
                place.mark,
                f"stage {stage.stage_id} may batch {tokens} tokens{where} but run {sequences} sequences",
                f"Set `max_num_batched_tokens` to at least {sequences}.",
                stage.stage_id,
            )
