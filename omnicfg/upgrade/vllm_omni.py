"""vLLM-Omni: keys of the deploy language that come and go, defaults and topologies that change."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from typing import Any, Final

from omnicfg.catalog.paths import load_json
from omnicfg.catalog.upstream import own_pipelines
from omnicfg.differences.compare import same
from omnicfg.origins import is_written
from omnicfg.plan import Plan, StagePlan
from omnicfg.tree import LayerKind, Node, plain
from omnicfg.tree import Mapping as Tree
from omnicfg.upgrade import Effect

_PARTS: Final = ("engine_args", "runtime", "extras")
_UNTOLD: Final = frozenset({"lines", "stage_id"})
_PARAMS: Final = {"default_sampling_params": ("sampling_params", "diffusion_sampling_params"),
                  "default_pooling_params": ("pooling_params",)}  # fmt: skip
_CHOICES: Final = {"session_mode": "session_modes", "model_runner": "model_runners"}


class Releases:
    """Two releases of vLLM-Omni."""

    def __init__(self, before: str, after: str) -> None:
        folders = [f"schemas/vllm-omni/{version}" for version in (before, after)]
        self.deploy: list[Mapping[str, Any]] = [load_json(f"{folder}/deploy.json") for folder in folders]
        self.pipelines: list[Mapping[str, Any]] = [
            load_json(f"{folder}/pipelines.json")["pipelines"] for folder in folders
        ]
        self.added = tuple(self._added())

    def _added(self) -> Iterator[str]:
        """What the newer release has besides."""
        for table, lead in (
            ("deploy_fields", ""),
            ("stage_fields", "stages.*."),
            ("duplex_session_fields", "duplex_session."),
        ):
            old, new = (set(self._fields(side, table)) for side in (0, 1))
            yield from (f"{lead}{name}" for name in sorted(new - old))
        yield from (f"pipeline {key}" for key in sorted(self.pipelines[1].keys() - self.pipelines[0].keys()))

    def _fields(self, side: int, table: str) -> dict[str, Mapping[str, Any]]:
        return {field["name"]: field for field in self.deploy[side][table]}

    def effects(self, plan: Plan) -> Iterator[Effect]:
        """What changes for a plan; nothing for the pipelines of this project, which vLLM-Omni does not have."""
        if plan.pipeline in own_pipelines():
            return
        if plan.pipeline in self.pipelines[0] and plan.pipeline not in self.pipelines[1]:
            mark = plan.tree.items["pipeline"].mark
            yield Effect("pipeline", None, "pipeline", plan.pipeline, None, mark if mark.line else None)
            return
        yield from self._profile(plan)
        for stage in plan.stages:
            yield from self._keys(stage)
            yield from self._stage_defaults(stage)
            yield from self._topology(plan, stage)

    # ------------------------------------------------------------------------------------------- the profile

    def _profile(self, plan: Plan) -> Iterator[Effect]:
        yield from self._gone(plan.deploy, "deploy_fields", "")
        yield from self._choices(plan)
        yield from self._defaults(plan.deploy, "deploy_fields", None)
        session = plan.deploy.get("duplex_session")
        if isinstance(session, Tree):
            yield from self._gone(session, "duplex_session_fields", "duplex_session.")
            yield from self._defaults(session, "duplex_session_fields", None, "duplex_session.")
        yield from self._connectors(plan)

    def _gone(self, tree: Tree, table: str, lead: str) -> Iterator[Effect]:
        old, new = (self._fields(side, table) for side in (0, 1))
        for name, node in tree.items.items():
            if is_written(node) and name in old and name not in new:
                yield Effect("removed", None, f"{lead}{name}", plain(node), None, node.mark)

    def _choices(self, plan: Plan) -> Iterator[Effect]:
        for key, listed in _CHOICES.items():
            node = plan.deploy.get(key)
            if node is not None and is_written(node) and plain(node) not in self.deploy[1][listed]:
                yield Effect("refused", None, key, plain(node), None, node.mark)

    def _connectors(self, plan: Plan) -> Iterator[Effect]:
        connectors = plan.deploy.get("connectors")
        for name, entry in connectors.items.items() if isinstance(connectors, Tree) else ():
            if not isinstance(entry, Tree):
                continue
            kind = entry.get("name")
            known_classes = [list(self.deploy[side]["connectors"]) for side in (0, 1)]
            if kind is not None and [plain(kind) in known for known in known_classes] == [True, False]:
                yield Effect("refused", None, f"connectors.{name}.name", plain(kind), None, kind.mark)
            extra = entry.get("extra")
            if isinstance(extra, Tree):
                known: list[Collection[Hashable]] = [self.deploy[side]["connector_extra_keys"] for side in (0, 1)]
                yield from _moved(extra, known, None, f"connectors.{name}.extra.")

    def _defaults(self, tree: Tree, table: str, stage_id: int | None, lead: str = "") -> Iterator[Effect]:
        """Defaults of the deploy language that the profile leaves in force."""
        old, new = (self._fields(side, table) for side in (0, 1))
        for name in old.keys() & new.keys():
            node = tree.get(name)
            before, after = old[name].get("default"), new[name].get("default")
            if (
                isinstance(before, dict)
                or same(before, after)
                or (node is not None and node.layer.kind != LayerKind.DEFAULT)
            ):
                continue
            yield Effect("default", stage_id, f"{lead}{name}", before, after)

    # --------------------------------------------------------------------------------------------- the stages

    def _keys(self, stage: StagePlan) -> Iterator[Effect]:
        """Settings of a stage that a release reads and the other does not."""
        kind = _kind(stage)
        known = [self._stage_keys(side, kind) for side in (0, 1)]
        for part in _PARTS:
            yield from _moved(stage.tree.mapping(part), known, stage.stage_id, "")
        for block, tables in _PARAMS.items():
            params = stage.extras.get(block)
            if isinstance(params, Tree):
                names = [{name for table in tables for name in self._fields(side, table)} for side in (0, 1)]
                yield from _moved(params, names, stage.stage_id, f"{block}.")

    def _stage_keys(self, side: int, kind: str) -> set[str]:
        owners = self.deploy[side]["owners"].get(kind, {"stage": ()})
        return {*self._fields(side, "stage_fields"), *owners["stage"], *self._fields(side, "deploy_fields")}

    def _stage_defaults(self, stage: StagePlan) -> Iterator[Effect]:
        for name in self._fields(0, "stage_fields").keys() - self._fields(0, "deploy_fields").keys():
            if any(name in stage.tree.mapping(part).items for part in _PARTS):
                continue
            old, new = (self._fields(side, "stage_fields").get(name, {}) for side in (0, 1))
            if new and not same(old.get("default"), new.get("default")):
                yield Effect("default", stage.stage_id, name, old.get("default"), new.get("default"))

    def _topology(self, plan: Plan, stage: StagePlan) -> Iterator[Effect]:
        """What the pipeline itself says of the stage, where no file has the last word."""
        sides = [self._topology_stage(side, plan.pipeline, stage.stage_id) for side in (0, 1)]
        old, new = sides
        if old is None:
            return
        if new is None:
            yield Effect("topology", stage.stage_id, "", "a stage of the pipeline", None)
            return
        for name in old.keys() & new.keys() - _UNTOLD:
            node = stage.find((name,))
            if not same(old[name], new[name]) and (node is None or not is_written(node)):
                yield Effect("topology", stage.stage_id, name, old[name], new[name])

    def _topology_stage(self, side: int, pipeline: str, stage_id: int) -> Mapping[str, Any] | None:
        stages = self.pipelines[side].get(pipeline, {"stages": ()})["stages"]
        return next((stage for stage in stages if stage["stage_id"] == stage_id), None)


def _kind(stage: StagePlan) -> str:
    if stage.stage_type == "diffusion":
        return "diffusion"
    return "llm_ar" if stage.worker_type == "ar" else "llm_generation"


def _moved(tree: Tree, known: Sequence[Collection[Hashable]], stage_id: int | None, lead: str) -> Iterator[Effect]:
    """Written keys that one of two releases reads; ``known`` are the keys that each of them reads."""
    old, new = known
    for name, node in _written(tree):
        if name in old and name not in new:
            yield Effect("removed", stage_id, f"{lead}{name}", plain(node), None, node.mark)
        elif name in new and name not in old:
            yield Effect("read", stage_id, f"{lead}{name}", None, plain(node), node.mark)


def _written(tree: Tree) -> Iterator[tuple[Hashable, Node]]:
    return ((name, node) for name, node in tree.items.items() if is_written(node))
