"""OC312: a pipeline-wide setting that does not reach a stage, which a file below has set for itself."""

from __future__ import annotations

from collections.abc import Iterator

from omnicfg.catalog.upstream import deploy_schema
from omnicfg.diagnostics import Severity
from omnicfg.losses import Losses, same, shown
from omnicfg.origins import is_written
from omnicfg.rule import Finding, Rule, Subject
from omnicfg.tree import LayerKind, Mapping, Node, find, plain

RULE = Rule(
    code="OC312",
    name="stage-over-profile",
    severity=Severity.WARNING,
    what="A setting for all stages that does not count for one of them, because a file below sets it for that stage.",
    why=(
        "A stage's own setting goes over the pipeline-wide one, whichever file it is in. An overlay that turns the "
        "prefix cache off for everything therefore leaves it on in a stage that its base has turned it on for. Where "
        "the stage's value is meant to stay, repeat it in the file on top."
    ),
    base="""\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 0
    dtype: float32
""",
    bad="""\
pipeline: qwen3_tts
base_config: base.yaml
dtype: bfloat16
""",
    good="""\
pipeline: qwen3_tts
base_config: base.yaml
dtype: bfloat16
stages:
  - stage_id: 0
    dtype: float32
""",
)


def check_profile(subject: Subject) -> Iterator[Finding]:
    """Every pipeline-wide setting against the stages' own, before a platform's block and with each."""
    losses = subject.losses
    for platform, tree in losses.trees.items():
        for key in ("async_chunk", *deploy_schema().pipeline_wide):
            for stage in tree.sequence("stages").mappings():
                own = _own(stage, key)
                is_here = own is not None and (platform is None or own.layer.kind is LayerKind.PLATFORM)
                if own is not None and is_here and _loses(tree.items[key], own, losses):
                    yield _finding(key, tree.items[key], own, stage.value("stage_id"), platform)


def _own(stage: Mapping, key: str) -> Node | None:
    """A stage's own word; of `async_chunk` only `false` counts, and null is none."""
    if key == "async_chunk":
        return stage.items[key] if plain(stage.items[key]) is False else None
    node = find(stage, ("engine_extras", key))
    return None if node is None or plain(node) is None else node


def _loses(wide: Node, own: Node, losses: Losses) -> bool:
    is_above = is_written(wide) and is_written(own) and losses.rank(wide) > losses.rank(own)
    return is_above and plain(wide) is not None and not same(wide, own)


def _finding(key: str, wide: Node, own: Node, stage_id: int, platform: str | None) -> Finding:
    return Finding(
        wide.mark,
        f"`{key}: {shown(key, wide)}` does not reach stage {stage_id}, which {own.mark} sets to `{shown(key, own)}`",
        f"Set `{key}` for stage {stage_id} here as well.",
        stage_id,
        platform,
    )
