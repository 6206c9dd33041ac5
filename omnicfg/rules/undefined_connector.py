"""OC401: a stage that refers to a connector that is not defined."""

from __future__ import annotations

from collections.abc import Iterator

from omnicfg.diagnostics import Severity
from omnicfg.fixes.edits import rewrite_value
from omnicfg.near import near
from omnicfg.plan import Plan
from omnicfg.rule import Finding, Rule, Subject
from omnicfg.tree import Mapping

RULE = Rule(
    code="OC401",
    name="undefined-connector",
    severity=Severity.ERROR,
    what="`input_connectors` or `output_connectors` of a stage names a connector that `connectors` does not define.",
    why="vLLM-Omni only logs a warning, and then drops the configuration of every connector of the profile.",
    bad="""\
pipeline: qwen3_tts
connectors:
  shm: {name: SharedMemoryConnector}
stages:
  - stage_id: 1
    input_connectors: {from_stage_0: shn}
""",
    good="""\
pipeline: qwen3_tts
connectors:
  shm: {name: SharedMemoryConnector}
stages:
  - stage_id: 1
    input_connectors: {from_stage_0: shm}
""",
)


def check_plan(plan: Plan, subject: Subject) -> Iterator[Finding]:
    """Every reference of every stage."""
    connectors = plan.deploy.items["connectors"]
    defined = connectors.items if isinstance(connectors, Mapping) else {}
    known = f"Defined: {', '.join(map(str, defined))}." if defined else "`connectors` defines none."
    for stage in plan.stages:
        for place, name, node in stage.connector_references():
            if name not in defined:
                close = near(name, map(str, defined))
                yield Finding(
                    node.mark,
                    f"`{place}` of stage {stage.stage_id} names connector `{name}`, which is not defined",
                    f"Did you mean `{close}`?" if close else known,
                    stage.stage_id,
                    fix=rewrite_value(subject, node, close, safe=False) if close else None,
                )
