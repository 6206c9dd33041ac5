"""OC311: an override that a later override undoes."""

from __future__ import annotations

from collections.abc import Iterator

from omnicfg.diagnostics import Severity
from omnicfg.losses import outermost, same
from omnicfg.passes.override import Override
from omnicfg.rule import Finding, Rule, Subject
from omnicfg.tree import LayerKind

RULE = Rule(
    code="OC311",
    name="override-order",
    severity=Severity.WARNING,
    what="A `--set` that does nothing, because one of another setting that comes after it has the last word.",
    why=(
        "Overrides are applied in the order in which they are given. A pipeline-wide one (`dtype=...`) after one of a "
        "single stage (`stages.0.dtype=...`) replaces it, and so does a whole block after one of its settings. "
        "Saying the same setting twice is no mistake: the last one counts."
    ),
    settings=("stages.0.dtype=float32", "dtype=bfloat16"),
    bad="""\
pipeline: qwen3_tts
async_chunk: false
""",
    good_settings=("dtype=bfloat16", "stages.0.dtype=float32"),
    good="""\
pipeline: qwen3_tts
async_chunk: false
""",
)


def _narrowness(override: Override) -> tuple[bool, int]:
    """How little an override sets: one of all stages sets most, then whole blocks of one."""
    return override.route[0] == "stages", len(override.route)


def check_profile(subject: Subject) -> Iterator[Finding]:
    """Every override whose value lost to that of an override of more than it sets."""
    reach = {override.node.mark.file: _narrowness(override) for override in subject.overrides}
    losses = (loss for loss in subject.losses.to_overrides if loss.loser.layer.kind is LayerKind.OVERRIDE)
    for loss in outermost(losses):
        earlier, later = loss.loser.mark.file, loss.winner.mark.file
        if reach[earlier] > reach[later] and not same(loss.loser, loss.final):
            yield Finding(
                loss.loser.mark,
                f"`{earlier}` does nothing: `{later}` comes after it",
                "Give the setting of the stage after the one of all stages, and single settings after whole blocks.",
                loss.stage_id,
                loss.platform,
            )
