"""OC902: a suppression that gives no reason."""

from __future__ import annotations

from collections.abc import Iterator

from omnicfg.diagnostics import Severity
from omnicfg.findings.suppressions import Judged
from omnicfg.rule import Finding, Rule

RULE = Rule(
    code="OC902",
    name="unexplained-suppression",
    severity=Severity.WARNING,
    what="A suppression without `because` and a reason. It suppresses nothing.",
    why="Whoever meets the comment later has to know whether it still holds, and cannot ask the finding.",
    bad="""\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 0
    max_num_seqs: 8  # omnicfg: ignore[OC603]
""",
    good="""\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 0
    max_num_seqs: 8
    max_num_batched_tokens: 4  # omnicfg: ignore[OC603] because this profile is only ever compiled
""",
)


def check_suppression(judged: Judged) -> Iterator[Finding]:
    """Every suppression that can be read and has no reason."""
    suppression = judged.suppression
    if not suppression.problem and not suppression.reason:
        yield Finding(
            suppression.mark,
            "this suppression gives no reason, so it suppresses nothing",
            "End it with `because` and the reason.",
        )
