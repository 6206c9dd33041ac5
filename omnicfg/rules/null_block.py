"""OC306: a null that drops a whole block of settings."""

from __future__ import annotations

from collections.abc import Iterator

from omnicfg.catalog.upstream import deploy_schema
from omnicfg.diagnostics import Severity
from omnicfg.losses import Loss, accepted, outermost
from omnicfg.origins import is_written
from omnicfg.rule import Finding, Rule, Subject
from omnicfg.tree import Mapping, Scalar

RULE = Rule(
    code="OC306",
    name="null-block",
    severity=Severity.WARNING,
    what="A null over a block of settings that would otherwise be merged: all that the block below sets is dropped.",
    why=(
        "Null means two things: over `stages`, `connectors` and `platforms` it keeps what is below, over a block of a "
        "stage it drops the block, the sampling parameters of the base among it. vLLM-Omni logs a warning only for "
        "the latter."
    ),
    base="""\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 0
    default_sampling_params: {top_k: 3}
""",
    bad="""\
pipeline: qwen3_tts
base_config: base.yaml
stages:
  - stage_id: 0
    default_sampling_params: null
""",
    good="""\
pipeline: qwen3_tts
base_config: base.yaml
stages:
  - stage_id: 0
    default_sampling_params: {top_k: 1}
""",
)


def check_profile(subject: Subject) -> Iterator[Finding]:
    """Every null over a merging block: of another file, on a platform, as an override."""
    losses = subject.losses
    every = (*losses.in_files, *losses.on_platforms, *losses.to_overrides)
    for loss in outermost(loss for loss in every if is_written(loss.loser) and _drops_block(loss)):
        assert isinstance(loss.loser, Mapping)
        names = ", ".join(f"`{key}`" for key in loss.loser.items)
        yield Finding(
            loss.winner.mark,
            f"`{loss.name}: null`{loss.where} drops the whole block in {loss.loser.mark} ({names})",
            f"Leave the key out to keep the block; if all of it should go, {accepted(loss, RULE.code)}.",
            loss.stage_id,
            loss.platform,
        )


def _drops_block(loss: Loss) -> bool:
    is_null = isinstance(loss.winner, Scalar) and loss.winner.value is None
    stays_null = isinstance(loss.final, Scalar) and loss.final.value is None
    merges = loss.route[0] in deploy_schema().deep_merge_keys
    return merges and is_null and stays_null and isinstance(loss.loser, Mapping) and bool(loss.loser.items)
