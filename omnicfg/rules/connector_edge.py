"""OC405: a connector between stages that hand nothing to each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from omnicfg.diagnostics import Severity
from omnicfg.plan import Plan, StagePlan
from omnicfg.rule import Finding, Rule, Subject
from omnicfg.tree import Mapping, Node, Scalar, Sequence, plain
from omnicfg.wording import is_number

RULE = Rule(
    code="OC405",
    name="connector-edge",
    severity=Severity.ERROR,
    what=(
        "A key of `input_connectors` or `output_connectors` that is not `from_stage_N` or `to_stage_N` of stages that "
        "follow each other in the pipeline; two ends of an edge with connectors of different classes; or a null in "
        "place of either block."
    ),
    why=(
        "The number in the key is all that says which edge a connector is for. With a wrong one the two stages of the "
        "real edge no longer use the same connector, or the stage is given none. If the two ends disagree on the "
        "class, or one of the blocks is null, reading the connectors fails, and all stages run without them: a warning "
        "in the log is all that is seen."
    ),
    bad="""\
pipeline: qwen3_tts
connectors:
  shm: {name: SharedMemoryConnector}
stages:
  - stage_id: 1
    input_connectors: {from_stage_2: shm}
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

_SIDES: Final = {"input_connectors": "from_stage_", "output_connectors": "to_stage_"}


class _End(NamedTuple):
    """One end of an edge: the stage that says it, where, and the class of its connector (``None``: not known)."""

    stage: StagePlan
    place: str
    node: Node
    connector_class: str | None


def check_plan(plan: Plan, subject: Subject) -> Iterator[Finding]:
    """Every key of every stage, and the two ends of every edge."""
    del subject
    edges: dict[tuple[int, int], _End] = {}
    sources = {stage.stage_id: plain(stage.tree.items["input_sources"]) for stage in plan.stages}
    for stage in plan.stages:
        for side, prefix in _SIDES.items():
            block = stage.extras.items.get(side)
            for key, node in block.items.items() if isinstance(block, Mapping) else ():
                edge = _edge(str(key), prefix, stage.stage_id)
                if edge is None or edge[0] not in sources.get(edge[1], ()):
                    assert isinstance(block, Mapping)
                    yield Finding(
                        block.key_mark(key),
                        f"`{side}.{key}` of stage {stage.stage_id} is no edge of pipeline {plan.pipeline}",
                        _help(stage.stage_id, prefix, sources),
                        stage.stage_id,
                    )
                    continue
                end = _End(stage, f"{side}.{key}", node, _class_of(node, plan))
                yield from _disagreement(end, edges.setdefault(edge, end))


def check_profile(subject: Subject) -> Iterator[Finding]:
    """A null in place of a block, where there are connectors to lose."""
    stages = subject.profile.raw.items.get("stages")
    entries = stages.mappings() if isinstance(stages, Sequence) else []
    blocks = [(entry, side, entry.items[side]) for entry in entries for side in _SIDES if side in entry.items]
    if not any(plain(node) for _, _, node in blocks):
        return
    for entry, side, node in blocks:
        if isinstance(node, Scalar) and node.value is None:
            stage_id = entry.value("stage_id")
            yield Finding(
                node.mark,
                f"`{side}` of stage {stage_id} is null, so all stages lose their connectors",
                f"Write `{side}: {{}}`, or leave it out.",
                stage_id if isinstance(stage_id, int) else None,
            )


def _edge(key: str, prefix: str, stage_id: int) -> tuple[int, int] | None:
    number = key.removeprefix(prefix)
    if number == key or not is_number(number, len("999")):
        return None
    return (int(number), stage_id) if prefix == "from_stage_" else (stage_id, int(number))


def _help(stage_id: int, prefix: str, sources: dict[int, list[int]]) -> str:
    others = sources[stage_id] if prefix == "from_stage_" else [to for to, of in sources.items() if stage_id in of]
    keys = ", ".join(f"`{prefix}{other}`" for other in others)
    if keys:
        return f"It may have {keys}."
    return f"Remove it: stage {stage_id} {'takes' if prefix == 'from_stage_' else 'hands'} nothing over."


def _class_of(node: Node, plan: Plan) -> str | None:
    if isinstance(node, Mapping):
        return _name(node)
    connectors, name = plan.deploy.items["connectors"], plain(node)
    connector = connectors.items.get(name) if isinstance(connectors, Mapping) and isinstance(name, str) else None
    return _name(connector) if isinstance(connector, Mapping) else None


def _name(connector: Mapping) -> str | None:
    name = connector.value("name")
    return name if isinstance(name, str) else None


def _disagreement(end: _End, first: _End) -> Iterator[Finding]:
    one, other = end.connector_class, first.connector_class
    if one is not None and other is not None and one != other:
        yield Finding(
            end.node.mark,
            f"`{end.place}` of stage {end.stage.stage_id} is a {one}, but the other end of the edge, `{first.place}` "
            f"of stage {first.stage.stage_id} ({first.node.mark}), is a {other}: all stages lose their connectors",
            "Name the same connector at both ends.",
            end.stage.stage_id,
        )
