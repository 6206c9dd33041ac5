"""OC801: what else a setting changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from omnicfg.catalog.capabilities import entry_for, side_effects
from omnicfg.diagnostics import Severity
from omnicfg.plan import Plan, StagePlan
from omnicfg.rule import Finding, Rule, Subject
from omnicfg.tree import LayerKind, Mark, Node

RULE = Rule(
    code="OC801",
    name="side-effect",
    severity=Severity.NOTE,
    what="A setting that changes more than its name says, by the model's record.",
    why=(
        "Some effects of a setting lie far from it: a Thinker's prefix cache makes text-only video sessions prefill "
        "frame by frame, and a duplex session without async chunks does not stream. Nobody who reviews the line sees "
        "them. The record names the effect and its source; a note asks for nothing to be done."
    ),
    bad="""\
pipeline: qwen3_omni_moe
stages:
  - stage_id: 0
    enable_prefix_caching: true
  - stage_id: 1
    enable_prefix_caching: false
""",
    good="""\
pipeline: qwen3_omni_moe
stages:
  - stage_id: 0
    enable_prefix_caching: false
  - stage_id: 1
    enable_prefix_caching: false
""",
)

# A condition of a record → where the setting stands: an engine arg of the stage, or a field of the profile.
_OF_STAGE: Final = {"prefix_caching": "enable_prefix_caching"}
_OF_PROFILE: Final = ("async_chunk", "session_mode", "model_runner")


def check_plan(plan: Plan, subject: Subject) -> Iterator[Finding]:
    """Every effect that the records of the stages see in force, but of what they refuse."""
    for stage in plan.stages:
        situation = subject.situation(plan, stage)
        cache = entry_for(plan.pipeline, stage.model_stage, "prefix_caching", situation)
        for effect in side_effects(plan.pipeline, stage.model_stage, situation):
            if "prefix_caching" in effect["when"] and cache is not None and cache.get("refuse"):
                continue  # OC501 wants it off
            what = " ".join(effect["what"].split())
            source = " ".join(effect["source"].split())
            yield Finding(
                _place(plan, stage, effect["when"]),
                f"{_setting(effect['when'])} also has this effect on stage {stage.stage_id} ({stage.model_stage}): "
                f"{what} [{source}]",
                None,
                stage.stage_id,
            )


def _place(plan: Plan, stage: StagePlan, when: Mapping[str, Any]) -> Mark:
    """The first setting among the conditions that somebody wrote; the stage's entry where nobody did."""
    nodes: list[Node | None] = [
        stage.engine_args.items.get(name) for condition, name in _OF_STAGE.items() if condition in when
    ]
    nodes += [plan.deploy.items[name] for name in _OF_PROFILE if name in when]
    written = (node for node in nodes if node is not None and node.layer.kind is not LayerKind.DEFAULT)
    return plan.setting_mark(stage.stage_id, next(written, None))


def _setting(when: Mapping[str, Any]) -> str:
    names = [_OF_STAGE.get(name, name) for name in when if name in _OF_STAGE or name in _OF_PROFILE]
    return " with ".join(f"`{name}: {_shown(when, name)}`" for name in names) or "what this stage runs in"


def _shown(when: Mapping[str, Any], name: str) -> str:
    value = when.get(name, when.get("prefix_caching"))
    values = value if isinstance(value, list) else [value]
    return " or ".join(str(one).lower() for one in values)
