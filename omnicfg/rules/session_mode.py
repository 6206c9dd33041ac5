"""OC403: duplex asked of a pipeline that cannot do it."""

from __future__ import annotations

from collections.abc import Iterator

from omnicfg.catalog.upstream import deploy_schema, pipelines
from omnicfg.diagnostics import Severity
from omnicfg.fixes.edits import rewrite_value
from omnicfg.near import near
from omnicfg.origins import told_to_set
from omnicfg.plan import Plan
from omnicfg.rule import Finding, Rule, Subject

RULE = Rule(
    code="OC403",
    name="session-mode-not-served",
    severity=Severity.WARNING,
    what=(
        "`session_mode` asks for a mode that will not be served: `duplex` without a duplex plugin. As an error, a word "
        "that is no mode at all."
    ),
    why=(
        "vLLM-Omni serves a duplex profile turn by turn when its pipeline declares no duplex plugin, and any other "
        "word as turn as well; it says neither."
    ),
    bad="""\
pipeline: personaplex
session_mode: duplex
""",
    good="""\
pipeline: personaplex
session_mode: turn
""",
)


def check_plan(plan: Plan, subject: Subject) -> Iterator[Finding]:
    """The profile's session mode against the pipeline's plugin."""
    node = plan.deploy.items["session_mode"]
    mode = plan.deploy.value("session_mode")
    modes = deploy_schema().session_modes
    if mode not in modes:
        close = near(str(mode), modes)
        yield Finding(
            node.mark,
            f"`session_mode: {mode}` is no mode and is served as turn",
            f"Did you mean `{close}`?" if close else f"Modes: {', '.join(modes)}.",
            severity=Severity.ERROR,
            fix=rewrite_value(subject, node, close, safe=False) if close else None,
        )
    elif mode == "duplex" and not pipelines()[plan.pipeline].get("duplex_plugin"):
        yield Finding(
            node.mark,
            f"pipeline {plan.pipeline} has no duplex plugin, so `session_mode: duplex` is served as turn",
            f"{told_to_set('session_mode', 'turn', node)}, which is what runs.",
            fix=rewrite_value(subject, node, "turn", safe=False),
        )
