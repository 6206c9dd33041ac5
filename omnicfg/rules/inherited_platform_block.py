"""OC302: a stage setting that an inherited platform block goes over."""

from __future__ import annotations

from collections.abc import Iterator

from omnicfg.catalog.upstream import deploy_schema
from omnicfg.diagnostics import Severity
from omnicfg.losses import Loss, Losses, outermost, same, shown
from omnicfg.origins import is_written
from omnicfg.rule import Finding, Rule, Subject
from omnicfg.tree import LayerKind

RULE = Rule(
    code="OC302",
    name="inherited-platform-block",
    severity=Severity.WARNING,
    what="A setting that does not count on a platform, because a file below has a block of that platform with it.",
    why=(
        "Files are merged first and the platform's block is applied last, so the block of a base goes over what the "
        "file on top says for all platforms. Where the base's value is meant to stay on that platform, repeat it in "
        "a block of the file on top: then it is seen there, and no longer reported."
    ),
    base="""\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 0
    max_num_seqs: 8
platforms:
  npu:
    stages: [{stage_id: 0, max_num_seqs: 4}]
""",
    bad="""\
pipeline: qwen3_tts
base_config: base.yaml
stages:
  - stage_id: 0
    max_num_seqs: 2
""",
    good="""\
pipeline: qwen3_tts
base_config: base.yaml
stages:
  - stage_id: 0
    max_num_seqs: 2
platforms:
  npu:
    stages: [{stage_id: 0, max_num_seqs: 4}]
""",
)


def check_profile(subject: Subject) -> Iterator[Finding]:
    """Every setting of a stage, and the model runner, that lost to a block of a file below."""
    losses = subject.losses
    for loss in outermost(loss for loss in losses.on_platforms if is_unexpected(loss, losses)):
        yield Finding(
            loss.loser.mark,
            f"`{loss.said(loss.loser)}`{loss.where} does not count here: "
            f"the block of this platform in {loss.winner.mark} says `{shown(loss.route[-1], loss.winner)}`",
            "Say in this file's block of the platform, under `platforms:`, which of the two is meant.",
            loss.stage_id,
            loss.platform,
        )


def is_unexpected(loss: Loss, losses: Losses) -> bool:
    """Whether a block of a platform has the last word over a file that builds on it."""
    if loss.route == ("model_runner",) and loss.platform in deploy_schema().v2_refused_on:
        return False  # the block is what lets the profile run there at all
    is_of_all = is_written(loss.loser) and loss.loser.layer.kind is not LayerKind.PLATFORM
    return is_of_all and losses.rank(loss.loser) > losses.rank(loss.final) and not same(loss.loser, loss.final)
