"""OC404: a connector that is used and cannot be made."""

from __future__ import annotations

from collections.abc import Iterator

from omnicfg.catalog.upstream import VLLM_OMNI, deploy_schema
from omnicfg.diagnostics import Severity
from omnicfg.fixes.edits import rewrite_value
from omnicfg.near import near
from omnicfg.plan import CONNECTOR_SIDES, Plan
from omnicfg.rule import Finding, Rule, Subject
from omnicfg.tree import Mapping, Node, plain

RULE = Rule(
    code="OC404",
    name="connector-class",
    severity=Severity.ERROR,
    what=(
        "A connector that a stage uses and that names no class or one that vLLM-Omni does not have, or whose `extra` "
        "is no mapping; or a reference that is no name."
    ),
    why=(
        "The class is looked up by name when the stage's worker starts, and an unknown one ends the start there. "
        "Without a `name`, or with an `extra` that is no mapping, it is worse: reading the connectors fails, a warning "
        "is logged, and all stages run without the connectors of the profile."
    ),
    bad="""\
pipeline: qwen3_tts
connectors:
  shm: {name: SharedMemoryConector}
stages:
  - stage_id: 1
    input_connectors: {from_stage_0: shm}
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
    """Every connector that a stage refers to, or defines in place of a reference."""
    connectors = plan.deploy.items["connectors"]
    defined = connectors.items if isinstance(connectors, Mapping) else {}
    used = {name for stage in plan.stages for _, name, _ in stage.connector_references()}
    for name, connector in defined.items():
        if name in used:
            yield from _problems(connector, f"connector `{name}`", None, subject)
    for stage in plan.stages:
        for side in CONNECTOR_SIDES:
            references = stage.extras.items.get(side)
            for edge, node in references.items.items() if isinstance(references, Mapping) else ():
                if not isinstance(plain(node), str):
                    what = f"`{side}.{edge}` of stage {stage.stage_id}"
                    yield from _problems(node, what, stage.stage_id, subject)


def _problems(connector: Node, what: str, stage_id: int | None, subject: Subject) -> Iterator[Finding]:
    classes = sorted(deploy_schema().connector_classes)
    if not isinstance(connector, Mapping):
        message = f"{what} is neither a name nor a mapping, so all stages lose their connectors"
        yield Finding(connector.mark, message, "Write a connector as `{name: CLASS, extra: {...}}`.", stage_id)
        return
    node = connector.items.get("name")
    name = None if node is None else plain(node)
    if node is None:
        message = f"{what} names no class, so all stages lose their connectors"
        yield Finding(connector.mark, message, f"Write `name:` with one of {', '.join(classes)}.", stage_id)
    elif name not in classes:
        close = near(str(name), classes)
        yield Finding(
            node.mark,
            f"{what} is a `{name}`, which vllm-omni {VLLM_OMNI} does not have, so its stages do not start",
            f"Did you mean `{close}`?" if close else f"There are {', '.join(classes)}.",
            stage_id,
            fix=rewrite_value(subject, node, close, safe=False) if close else None,
        )
    extra = connector.items.get("extra")
    if extra is not None and not isinstance(extra, Mapping):
        message = f"`extra` of {what} is no mapping, so all stages lose their connectors"
        yield Finding(extra.mark, message, "Remove it, or write its settings as keys.", stage_id)
