"""What compiling a profile gives: the final engine args of every stage, each value with its origin."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from omnicfg.tree import Mapping, Mark, Node, Route, find, leaves, plain
from omnicfg.wording import is_number

CONNECTOR_SIDES: Final = ("input_connectors", "output_connectors")
_STAGE_PARTS: Final = ("engine_args", "runtime", "extras")
_MAX_DIGITS: Final = 9  # of a position in a list; longer words are keys


class StagePlan:
    """One stage of a plan."""

    def __init__(self, tree: Mapping) -> None:
        self.tree = tree

    @property
    def stage_id(self) -> int:
        value = self.tree.value("stage_id")
        assert isinstance(value, int)
        return value

    @property
    def model_stage(self) -> str:
        return str(self.tree.value("model_stage"))

    @property
    def stage_type(self) -> str:
        return str(self.tree.value("stage_type"))

    @property
    def title(self) -> str:
        """``stage 0: thinker (llm, ar)``"""
        kind = self.stage_type if self.worker_type is None else f"{self.stage_type}, {self.worker_type}"
        return f"stage {self.stage_id}: {self.model_stage} ({kind})"

    @property
    def worker_type(self) -> str | None:
        value = self.tree.value("worker_type")
        return None if value is None else str(value)

    @property
    def engine_args(self) -> Mapping:
        return self.tree.mapping("engine_args")

    @property
    def runtime(self) -> Mapping:
        return self.tree.mapping("runtime")

    @property
    def extras(self) -> Mapping:
        return self.tree.mapping("extras")

    def connector_references(self) -> Iterator[tuple[str, str, Node]]:
        """Each reference to a connector: where it stands (``input_connectors.from_stage_0``), its name and its node.

        What is no name is left out.
        """
        for side in CONNECTOR_SIDES:
            references = self.extras.items.get(side)
            for edge, node in references.items.items() if isinstance(references, Mapping) else ():
                name = plain(node)
                if isinstance(name, str):
                    yield f"{side}.{edge}", name, node

    def arg(self, name: str) -> Any:
        """The plain value of an engine arg; ``None`` where it is unset."""
        return self.engine_args.value(name)

    def find(self, route: Route) -> Node | None:
        """A setting by its route within the stage: an engine arg, a runtime or extras key, or a topology field."""
        for part in _STAGE_PARTS:
            node = find(self.tree.mapping(part), route)
            if node is not None:
                return node
        return find(self.tree, route)


class Plan:
    """A compiled profile. ``tree`` holds every value with its provenance; :meth:`to_dict` gives the plain values.

    ``stage_marks`` says where the profile's own entry of a stage is written.
    """

    def __init__(self, tree: Mapping, stage_marks: dict[int, Mark] | None = None) -> None:
        self.tree = tree
        self.stage_marks = stage_marks or {}

    @property
    def profile(self) -> str:
        return str(self.tree.value("profile"))

    @property
    def platform(self) -> str:
        return str(self.tree.value("platform"))

    @property
    def pipeline(self) -> str:
        return str(self.tree.value("pipeline"))

    @property
    def deploy(self) -> Mapping:
        return self.tree.mapping("deploy")

    @property
    def stages(self) -> list[StagePlan]:
        return [StagePlan(stage) for stage in self.tree.sequence("stages").mappings()]

    def stage(self, stage_id: int) -> StagePlan | None:
        """The stage with this id (ids, not positions, name stages everywhere)."""
        return next((stage for stage in self.stages if stage.stage_id == stage_id), None)

    def stage_mark(self, stage_id: int) -> Mark:
        """Where the profile configures a stage: its `stage_id`; the start of the file where it has no entry."""
        return self.stage_marks.get(stage_id, Mark(self.tree.mark.file, 1, 1, 1, 1))

    def setting_mark(self, stage_id: int, setting: Node | None) -> Mark:
        """Where a setting of a stage is written; where nobody wrote it, :meth:`stage_mark`."""
        return self.stage_mark(stage_id) if setting is None else setting.mark

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain data; ``engine_args``, ``runtime`` and ``extras`` equal vLLM-Omni's own."""
        data: dict[str, Any] = plain(self.tree)
        return data

    def find(self, key: str) -> Node | None:
        """The value at ``stages.0.enable_prefix_caching`` or ``async_chunk``, with its history; ``None`` if unset."""
        route = _typed(key.split("."))
        if route[0] == "stages" and len(route) > 2 and isinstance(route[1], int):
            stage = self.stage(route[1])
            return None if stage is None else stage.find(route[2:])
        return find(self.deploy, route) or find(self.tree, route)

    def leaves(self) -> Iterator[tuple[Route, Node]]:
        """Every leaf of the plan with its route."""
        return leaves(self.tree)


def _typed(steps: Iterable[str]) -> Route:
    return tuple(int(step) if is_number(step, _MAX_DIGITS) else step for step in steps)
