"""OC901: a comment that is meant to suppress findings, and cannot be read as one that does."""

from __future__ import annotations

from collections.abc import Iterator

from omnicfg.diagnostics import Severity
from omnicfg.findings.suppressions import WORDS, Judged
from omnicfg.near import near
from omnicfg.rule import Finding, Rule

RULE = Rule(
    code="OC901",
    name="malformed-suppression",
    severity=Severity.WARNING,
    what="A comment that begins like a suppression and is none: a misspelt word, or no codes in brackets.",
    why=("It suppresses nothing. Suppressions without codes are not taken: they would hide what nobody has seen yet."),
    bad="""\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 0
    max_num_seqs: 8  # omnicfg: ignore because eight callers is what we sell
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
    """Both words of which there are none, and brackets that are missing or empty."""
    suppression = judged.suppression
    if suppression.problem:
        word = suppression.word if suppression.word in WORDS else near(suppression.word, WORDS) or WORDS[0]
        yield Finding(
            suppression.mark,
            f"this comment suppresses nothing: {suppression.problem}",
            f"Write `# omnicfg: {word}[CODE] because REASON`.",
        )
