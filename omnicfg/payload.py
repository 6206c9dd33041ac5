"""Which payload rows a plan asks of its first stage, and what stands against keeping them on the bundled engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from omnicfg.catalog.capabilities import stage_record
from omnicfg.engine.spec import PayloadRows, Refusal, refusals
from omnicfg.plan import Plan, StagePlan
from omnicfg.tree import Mapping as Tree
from omnicfg.tree import Node, plain

ONE_HOST: Final = "SharedMemoryConnector"
"""Upstream's connector that does what the bundled engine does: it hands over in the memory of one host."""


def rows_record(plan: Plan) -> Mapping[str, Any] | None:
    """What the model's record says of the rows that stage 0 hands on; ``None`` where no later stage takes any.

    A later stage takes them where it names stage 0 among its inputs and the record of stage 0 has a ``payload``.
    """
    first = plan.stages[0]
    record = stage_record(plan.pipeline, first.model_stage)
    if record is None or "payload" not in record or not _feeds_another(plan, first):
        return None
    payload: Mapping[str, Any] = record["payload"]
    return payload


def rows_of(plan: Plan, hf_config: Mapping[str, Any]) -> PayloadRows | None:
    """The rows that stage 0 of a plan has to keep for a model with this ``config.json``; ``None`` where it need not.

    Raises :class:`~omnicfg.engine.spec.EngineSpecError` where record and ``config.json`` do not fit together.
    """
    record = rows_record(plan)
    return None if record is None else PayloadRows.from_record(record, hf_config)


def rows_refusals(plan: Plan, hf_config: Mapping[str, Any] | None) -> Iterator[Refusal]:
    """Why the bundled engine cannot keep the rows that the plan asks for, in words for people.

    Without a ``config.json`` only the plan's own settings are looked at.
    """
    record = rows_record(plan)
    if record is None:
        return
    first = plan.stages[0]
    for refusal in refusals(plain(first.engine_args), hf_config, record):
        yield Refusal(
            f"a later stage reads hidden states of stage {first.stage_id} ({first.model_stage}), which the bundled "
            f"engine cannot keep here: {refusal.why}",
            refusal.setting,
        )


@dataclass(frozen=True, slots=True)
class RemoteEdge:
    """A connector of several hosts between two stages: where a stage refers to it, and its class."""

    stage: StagePlan
    name: str
    kind: str
    node: Node

    @property
    def why(self) -> str:
        """Why the bundled engine does not use it, in words for people."""
        return (
            f"stage {self.stage.stage_id} ({self.stage.model_stage}) is joined by `{self.name}`, a {self.kind}; the "
            f"bundled engine hands over in the memory of one host ({ONE_HOST})"
        )


def remote_edges(plan: Plan) -> Iterator[RemoteEdge]:
    """The connectors between stages that the bundled engine does not have. Names without a class are other rules'."""
    connectors = plan.deploy.items["connectors"]
    defined = connectors.items if isinstance(connectors, Tree) else {}
    for stage in plan.stages:
        for _, name, node in stage.connector_references():
            connector = defined.get(name)
            kind = connector.value("name") if isinstance(connector, Tree) else None
            if isinstance(kind, str) and kind != ONE_HOST:
                yield RemoteEdge(stage, name, kind, node)


def _feeds_another(plan: Plan, first: StagePlan) -> bool:
    return any(first.stage_id in (stage.tree.value("input_sources") or ()) for stage in plan.stages[1:])
