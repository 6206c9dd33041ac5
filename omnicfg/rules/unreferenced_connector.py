"""OC402: a connector that no stage uses."""

from __future__ import annotations

from collections.abc import Iterator

from omnicfg.diagnostics import Severity
from omnicfg.plan import Plan
from omnicfg.rule import Finding, Rule, Subject
from omnicfg.tree import Mapping, plain

RULE = Rule(
    code="OC402",
    name="unreferenced-connector",
    severity=Severity.WARNING,
    what="A connector that is defined but that no stage's `input_connectors` or `output_connectors` and no edge names.",
    why="Its settings never take effect, while the profile looks as if the stages were wired through it.",
    bad="""\
pipeline: qwen3_tts
connectors:
  shm: {name: SharedMemoryConnector}
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
    """Every defined connector against all references."""
    del subject
    connectors = plan.deploy.items["connectors"]
    if not isinstance(connectors, Mapping):
        return
    used = _used(plan)
    for name in connectors.items:
        if name not in used:
            yield Finding(
                connectors.key_mark(name),
                f"no stage and no edge uses connector `{name}`",
                "Name it in a stage's `input_connectors` or `output_connectors`, or remove it.",
            )


def _used(plan: Plan) -> set[object]:
    used: set[object] = {name for stage in plan.stages for _, name, _ in stage.connector_references()}
    edges = plain(plan.deploy.items["edges"])
    for edge in edges if isinstance(edges, list) else ():
        used |= {value for value in edge.values() if isinstance(value, str)} if isinstance(edge, dict) else set()
    return used
