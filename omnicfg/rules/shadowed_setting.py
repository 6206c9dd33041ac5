"""OC301: a stage setting that another spelling of the same setting goes over."""

from __future__ import annotations

from collections.abc import Iterator

from omnicfg.diagnostics import Severity
from omnicfg.losses import SPELLINGS, Loss, same, shown
from omnicfg.origins import is_written
from omnicfg.rule import Finding, Rule, Subject

RULE = Rule(
    code="OC301",
    name="shadowed-setting",
    severity=Severity.ERROR,
    what=(
        "A setting of a stage that never counts, because the same setting, spelled another way, goes over it: in the "
        "same entry, or in a file below."
    ),
    why=(
        "A stage's setting may be its own key, or stand under `engine_args`, `runtime` or `engine_extras`. Which "
        "spelling counts is fixed, whatever file it is in: `engine_args` and `runtime` go over the own key, "
        "`engine_extras` goes over both for settings that the schema knows, and the own key goes over `engine_extras` "
        "for all others. So an overlay or a platform's block changes nothing where the file below it uses the "
        "stronger spelling."
    ),
    bad="""\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 0
    max_num_seqs: 8
    engine_extras: {max_num_seqs: 4}
""",
    good="""\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 0
    max_num_seqs: 8
""",
)


def check_profile(subject: Subject) -> Iterator[Finding]:
    """Every setting that lost to another spelling although it is written as near to the top, or nearer."""
    losses = subject.losses
    for loss in losses.of_spellings:
        above = is_written(loss.loser) and losses.rank(loss.loser) >= losses.rank(loss.final)
        if above and not same(loss.loser, loss.final):
            yield Finding(loss.loser.mark, _message(loss), _help(loss), loss.stage_id, loss.platform)


def _message(loss: Loss) -> str:
    value = shown(loss.route[-1], loss.winner)
    return (
        f"`{loss.said(loss.loser)}`{loss.where} never counts: "
        f"{SPELLINGS[loss.reason]} says `{value}` in {loss.winner.mark}, and goes over it"
    )


def _help(loss: Loss) -> str:
    if loss.loser.mark.file == loss.winner.mark.file and loss.platform is None:
        return "Keep one of the two."
    return f"Set it by {SPELLINGS[loss.reason]} here as well."
