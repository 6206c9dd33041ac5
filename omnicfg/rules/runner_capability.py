"""OC502: Model Runner V2, duplex or async_chunk where the model's record speaks against it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from omnicfg.catalog.capabilities import entry_for
from omnicfg.catalog.upstream import pipelines
from omnicfg.diagnostics import Severity
from omnicfg.fixes.edits import rewrite_value
from omnicfg.origins import told_to_set
from omnicfg.plan import Plan
from omnicfg.rule import DEFAULT_ENGINE, Finding, Rule, Subject, effective_session_mode
from omnicfg.tree import Node

RULE = Rule(
    code="OC502",
    name="mode-capability",
    severity=Severity.WARNING,
    what=(
        "A stage runs on MRv2, in duplex or in async chunks where the model's record calls that broken, or on MRv2 "
        "where no stage declares its data plane. As an error, where the record refuses it."
    ),
    why=(
        "These modes are chosen for the whole profile, but what they do differs stage by stage. vLLM-Omni itself only "
        "logs a warning for a stage without MRv2's data plane and goes on over the older transport."
    ),
    bad="""\
pipeline: cosyvoice3
model_runner: v2
platforms:
  npu: {model_runner: v1}
  xpu: {model_runner: v1}
stages:
  - stage_id: 0
    enable_prefix_caching: false
""",
    good="""\
pipeline: cosyvoice3
model_runner: v1
platforms:
  npu: {model_runner: v1}
  xpu: {model_runner: v1}
stages:
  - stage_id: 0
    enable_prefix_caching: false
""",
)


def check_plan(plan: Plan, subject: Subject) -> Iterator[Finding]:
    """Each mode that is in force, once per profile: at the first stage whose record speaks against it."""
    if subject.engine == DEFAULT_ENGINE:  # the data plane is one of vLLM-Omni's own runners
        yield from _undeclared_runner(plan, subject)
    for capability, node, what in _modes_in_force(plan):
        for stage in plan.stages:
            entry = entry_for(plan.pipeline, stage.model_stage, capability, subject.situation(plan, stage))
            severity = None if entry is None else _severity(entry)
            if entry is not None and severity is not None:
                message = (
                    f"{what} is {entry['verdict']} for stage {stage.stage_id} ({stage.model_stage}): "
                    f"{entry['evidence']} [{entry['source']}]"
                )
                yield Finding(node.mark, message, None, stage.stage_id, severity=severity)


def _undeclared_runner(plan: Plan, subject: Subject) -> Iterator[Finding]:
    if plan.deploy.value("model_runner") != "v2":
        return
    stages = pipelines()[plan.pipeline]["stages"]
    without = [stage["stage_id"] for stage in stages if not stage["supports_native_mrv2_data_plane"]]
    if len(without) == len(stages):
        node = plan.deploy.items["model_runner"]
        yield Finding(
            node.mark,
            f"no stage of pipeline {plan.pipeline} declares MRv2's data plane, "
            "so v2 runs unvalidated over the older transport",
            f"{told_to_set('model_runner', 'v1', node)}, unless you are validating MRv2 for this model.",
            fix=rewrite_value(subject, node, "v1", safe=False),
        )


def _modes_in_force(plan: Plan) -> Iterator[tuple[str, Node, str]]:
    deploy = plan.deploy
    if deploy.value("model_runner") == "v2":
        yield "model_runner_v2", deploy.items["model_runner"], "Model Runner V2"
    if effective_session_mode(plan) == "duplex":
        yield "duplex", deploy.items["session_mode"], "duplex serving"
    if deploy.value("async_chunk"):
        yield "async_chunk", deploy.items["async_chunk"], "`async_chunk`"


def _severity(entry: Mapping[str, Any]) -> Severity | None:
    if entry.get("refuse"):
        return Severity.ERROR
    return Severity.WARNING if entry["verdict"] == "broken" else None
