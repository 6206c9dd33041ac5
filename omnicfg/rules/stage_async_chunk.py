"""OC309: a stage that asks for async chunks in a profile that has them off."""

from __future__ import annotations

from collections.abc import Iterator

from omnicfg.diagnostics import Severity
from omnicfg.rule import Finding, Rule, Subject
from omnicfg.tree import LayerKind, plain

RULE = Rule(
    code="OC309",
    name="stage-async-chunk",
    severity=Severity.WARNING,
    what="`async_chunk: true` of a stage where the profile says `async_chunk: false`: the stage's word does nothing.",
    why=(
        "Whether stages hand on chunks is decided for the whole profile; of a stage's own `async_chunk` only `false` "
        "is read, as a way to opt out."
    ),
    bad="""\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 0
    async_chunk: true
""",
    good="""\
pipeline: qwen3_tts
async_chunk: true
stages:
  - stage_id: 0
    enable_prefix_caching: false
""",
)


def check_profile(subject: Subject) -> Iterator[Finding]:
    """Every stage's own setting that is written as near to the top as the profile's, or nearer."""
    losses = subject.losses
    for platform, tree in losses.trees.items():
        decides = tree.items["async_chunk"]
        for stage in tree.sequence("stages").mappings() if not plain(decides) else ():
            own = stage.items["async_chunk"]
            is_here = platform is None or own.layer.kind is LayerKind.PLATFORM
            if plain(own) is True and is_here and losses.rank(own) >= losses.rank(decides):
                yield Finding(
                    own.mark,
                    f"`async_chunk: true` of stage {stage.value('stage_id')} does nothing: "
                    f"{decides.mark} turns it off for the whole profile",
                    "Turn it on there, or remove this.",
                    stage.value("stage_id"),
                    platform,
                )
