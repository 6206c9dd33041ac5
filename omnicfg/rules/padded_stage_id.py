"""OC204: an override that names its stage with leading zeros."""

from __future__ import annotations

from collections.abc import Iterator

from omnicfg.diagnostics import Severity
from omnicfg.passes.override import Override
from omnicfg.rule import Finding, Rule, Subject
from omnicfg.tree import Mark

RULE = Rule(
    code="OC204",
    name="padded-stage-id",
    severity=Severity.NOTE,
    what="A `--set` that names its stage with leading zeros, such as `stages.00.max_num_seqs`.",
    why=(
        "It is read as stage 0. vLLM-Omni's own command line reads `--stage-00-...` so only for some settings and "
        "drops the others, and two spellings of one stage are easily taken for two stages."
    ),
    settings=("stages.00.max_num_seqs=4",),
    bad="""\
pipeline: qwen3_tts
async_chunk: false
""",
    good_settings=("stages.0.max_num_seqs=4",),
    good="""\
pipeline: qwen3_tts
async_chunk: false
""",
)


def check_profile(subject: Subject) -> Iterator[Finding]:
    """Every override of a stage."""
    for override in subject.overrides:
        word = override.route[1] if override.route[0] == "stages" and len(override.route) > 1 else ""
        if word.isdecimal() and len(word) > 1 and word.startswith("0"):
            stage_id = int(word)
            yield Finding(
                _mark(override, word),
                f"`stages.{word}` is read as stage {stage_id}",
                f"Write `stages.{stage_id}`.",
                stage_id,
            )


def _mark(override: Override, word: str) -> Mark:
    """The number in the text of the option; an override of the API has no place in a text."""
    mark = override.node.mark
    column = len("stages.") + 1
    return mark._replace(line=1, column=column, end_line=1, end_column=column + len(word)) if mark.line else mark
