"""OC310: a pipeline-wide override that replaces what a stage says for itself."""

from __future__ import annotations

from collections.abc import Iterator

from omnicfg.diagnostics import Severity
from omnicfg.losses import Loss, same, shown
from omnicfg.origins import is_flag, is_written
from omnicfg.rule import Finding, Rule, Subject
from omnicfg.tree import LayerKind

RULE = Rule(
    code="OC310",
    name="override-of-all-stages",
    severity=Severity.WARNING,
    what="A `--set` of a pipeline-wide setting that also replaces what a stage of the profile says for itself.",
    why=(
        "In a file a stage's own setting goes over the pipeline-wide one, so a stage can opt out; on the command line "
        "a pipeline-wide setting goes over both, as vLLM-Omni has it. An opt-out that was written for a reason (a "
        "prefix cache that gives wrong output, a dtype that overflows) is thereby undone. Where that is meant, say it "
        "for the stage as well."
    ),
    settings=("dtype=bfloat16",),
    bad="""\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 0
    dtype: float32
""",
    good_settings=("dtype=bfloat16", "stages.0.dtype=float32"),
    good="""\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 0
    dtype: float32
""",
)


def check_profile(subject: Subject) -> Iterator[Finding]:
    """Every stage's own setting that a pipeline-wide override has the last word on."""
    settings = [override for override in subject.overrides if not is_flag(override.node)]  # OC855 tells of flags
    wide = {override.node.mark: override.key for override in settings if override.route[0] != "stages"}
    losses = subject.losses
    for loss in losses.to_overrides:
        is_wide = loss.stage_id is not None and loss.winner.mark in wide
        if is_wide and is_written(loss.loser) and _is_undone(loss):
            key = wide[loss.winner.mark]
            value = shown(key, loss.winner)
            yield Finding(
                loss.winner.mark,
                f"`{key}` also replaces what stage {loss.stage_id} says for itself: "
                f"`{shown(key, loss.loser)}` in {loss.loser.mark}",
                f"Where that is meant, say so: `--set stages.{loss.stage_id}.{key}={value}`.",
                loss.stage_id,
                loss.platform,
            )


def _is_undone(loss: Loss) -> bool:
    decides = loss.final.mark == loss.winner.mark
    return decides and loss.loser.layer.kind is not LayerKind.OVERRIDE and not same(loss.loser, loss.winner)
