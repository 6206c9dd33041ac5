"""OC501: a prefix cache that is on where the model's record speaks against it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from omnicfg.catalog.capabilities import entry_for, record_of
from omnicfg.diagnostics import Fix, Severity
from omnicfg.fixes.edits import rewrite_value
from omnicfg.origins import told_to_set
from omnicfg.plan import Plan, StagePlan
from omnicfg.rule import Finding, Rule, Subject, prefix_caching
from omnicfg.tree import Mark
from omnicfg.wording import listed

RULE = Rule(
    code="OC501",
    name="prefix-cache-capability",
    severity=Severity.ERROR,
    what=(
        "A stage's prefix cache is on where the model's capability record refuses it. As a warning, where the record "
        "calls it broken; as a note, where it was switched on and gains nothing."
    ),
    why=(
        "Whether cached prefixes are right depends on model, stage, runner, session mode and engine: later stages "
        "need hidden states of tokens that a hit does not compute. The record holds what was measured; the finding "
        "cites it. A cache that is merely left unset counts as on, because vLLM's default is on."
    ),
    bad="""\
pipeline: qwen3_omni_moe
session_mode: duplex
stages:
  - stage_id: 0
    enable_prefix_caching: true
  - stage_id: 1
    enable_prefix_caching: false
""",
    good="""\
pipeline: qwen3_omni_moe
session_mode: duplex
stages:
  - stage_id: 0
    enable_prefix_caching: false
  - stage_id: 1
    enable_prefix_caching: false
""",
)


class _Kind(NamedTuple):
    """What is said once, whatever the platforms: of which setting of which stage, and how bad it is."""

    mark: Mark
    stage_id: int
    is_set: bool
    severity: Severity


class _Case(NamedTuple):
    """What is known on one platform."""

    platform: str
    plan: Plan
    stage: StagePlan
    entry: Mapping[str, Any]


def check_profile(subject: Subject) -> Iterator[Finding]:
    """Every stage whose cache is on, against the first entry of its record that matches on each platform."""
    found: dict[_Kind, list[_Case]] = {}
    for platform, plan in subject.plans.items():
        for stage in filter(prefix_caching, plan.stages):
            entry = entry_for(plan.pipeline, stage.model_stage, "prefix_caching", subject.situation(plan, stage))
            severity = None if entry is None else _severity(entry, is_set(stage))
            if entry is not None and severity is not None:
                mark = plan.setting_mark(stage.stage_id, stage.engine_args.items.get("enable_prefix_caching"))
                kind = _Kind(mark, stage.stage_id, is_set(stage), severity)
                found.setdefault(kind, []).append(_Case(platform, plan, stage, entry))
    for kind, cases in found.items():
        _, plan, stage, _ = cases[0]
        node = stage.engine_args.get("enable_prefix_caching")
        yield Finding(
            kind.mark,
            _message(plan, stage, cases),
            f"{told_to_set('enable_prefix_caching', 'false', node, stage.stage_id)}.",
            stage.stage_id,
            platform=",".join(case.platform for case in cases),
            severity=kind.severity,
            fix=_fix(plan, stage, subject),
        )


def _fix(plan: Plan, stage: StagePlan, subject: Subject) -> Fix | None:
    """To switch the cache off, where the setting is the stage's own and not that of all stages."""
    node, wide = stage.engine_args.items.get("enable_prefix_caching"), plan.deploy.items.get("enable_prefix_caching")
    if node is None or (wide is not None and wide.mark == node.mark):
        return None
    return rewrite_value(subject, node, False, safe=False)


def is_set(stage: StagePlan) -> bool:
    """Whether the profile says anything about the cache, or leaves it to vLLM."""
    return stage.arg("enable_prefix_caching") is not None


def _severity(entry: Mapping[str, Any], explicit: bool) -> Severity | None:
    if entry.get("refuse"):
        return Severity.ERROR
    if entry["verdict"] == "broken":
        return Severity.WARNING
    if entry["verdict"] == "no-benefit" and explicit and not entry.get("default"):
        return Severity.NOTE
    return None


def _message(plan: Plan, stage: StagePlan, cases: Sequence[_Case]) -> str:
    record = record_of(plan.pipeline)
    title = record["title"] if record else plan.pipeline
    how = "is on" if is_set(stage) else "is unset, and vLLM's default is on"
    return (
        f"the prefix cache of stage {stage.stage_id} ({stage.model_stage}) {how}, but for {title} it is {_known(cases)}"
    )


def _known(cases: Sequence[_Case]) -> str:
    """Verdict, evidence and source; on which platforms, where what is known differs among them."""
    on: dict[tuple[str, str, str], list[str]] = {}
    for case in cases:
        verdict = {"no-benefit": "without benefit"}.get(case.entry["verdict"], case.entry["verdict"])
        on.setdefault((verdict, case.entry["evidence"], case.entry["source"]), []).append(case.platform)
    return "; ".join(
        f"{verdict} {'here' if len(on) == 1 else f'on {listed(platforms)}'}: {evidence} [{source}]"
        for (verdict, evidence, source), platforms in on.items()
    )
