"""vLLM: engine args that go, change their names, values or defaults, for the stages whose engine is vLLM's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from omnicfg.catalog.paths import load_json
from omnicfg.catalog.vllm_args import engine_args, value_type
from omnicfg.differences.compare import same
from omnicfg.export.vllm_changes import changes, flattened
from omnicfg.origins import is_written
from omnicfg.passes.effective import default_of
from omnicfg.plan import Plan, StagePlan
from omnicfg.tree import Mapping as Tree
from omnicfg.tree import Node, Scalar, plain
from omnicfg.upgrade import Effect


class Releases:
    """Two releases of vLLM."""

    def __init__(self, before: str, after: str) -> None:
        self.before = before
        self.after = after
        releases = [load_json(f"schemas/vllm/{version}.json") for version in (before, after)]
        self.known = [flattened(release) for release in releases]
        found: dict[str, dict[str, Any]] = changes(releases)
        self.changes = next(iter(found.values()))
        self.renamed = {each["from"]: each["to"] for each in self.changes["renamed"]}
        self.added: tuple[str, ...] = tuple(self.changes["added"])

    def effects(self, plan: Plan) -> Iterator[Effect]:
        """What changes for the stages of a plan that vLLM runs."""
        for stage in plan.stages:
            if stage.stage_type != "diffusion":
                yield from self._settings(stage)
                yield from self._defaults(stage, plan.platform)

    def _settings(self, stage: StagePlan) -> Iterator[Effect]:
        for key, node in _written(stage.engine_args, ""):
            if key in self.renamed:
                yield Effect("renamed", stage.stage_id, key, key, self.renamed[key], node.mark)
            elif key in self.changes["removed"]:
                yield Effect("removed", stage.stage_id, key, plain(node), None, node.mark)
            elif key in self.known[0] and key in self.known[1]:
                yield from self._value(stage.stage_id, key, node)

    def _value(self, stage_id: int, key: str, node: Node) -> Iterator[Effect]:
        value = plain(node)
        was_taken, is_taken = (value_type(known[key]["type"]).admits(value) for known in self.known)
        # Choices are also listed where others are taken besides; what a release no longer lists, it no longer has.
        choices = self.changes["choices_changed"].get(key, {"added": [], "removed": []})
        if (was_taken and not is_taken) or value in choices["removed"]:
            yield Effect("refused", stage_id, key, value, None, node.mark)
        elif (is_taken and not was_taken) or value in choices["added"]:
            yield Effect("accepted", stage_id, key, value, value, node.mark)
        if key in self.changes["deprecated"]:
            yield Effect("deprecated", stage_id, key, value, value, node.mark)

    def _defaults(self, stage: StagePlan, platform: str) -> Iterator[Effect]:
        """Defaults that reach the stage, because it leaves them open."""
        changed = self.changes["default_changed"]
        for name in sorted({*changed, *self.changes["resolved_changed"]}):
            if _is_set(stage.engine_args, name.split(".")):
                continue
            before, after = changed.get(name, (None, None))
            if all(name in engine_args(version) for version in (self.before, self.after)):
                before, after = (
                    plain(default_of(name, stage, platform, version)) for version in (self.before, self.after)
                )
            if not same(before, after):
                yield Effect("default", stage.stage_id, name, before, after)


def _written(tree: Tree, lead: str) -> Iterator[tuple[str, Node]]:
    """Each setting that is written, with its dotted name: configs themselves, and what is in them."""
    for key, node in tree.items.items():
        name = f"{lead}{key}"
        if is_written(node):
            yield name, node
        if isinstance(node, Tree):
            yield from _written(node, f"{name}.")


def _is_set(tree: Tree, steps: list[str]) -> bool:
    node: Node | None = tree
    for step in steps:
        node = node.get(step) if isinstance(node, Tree) else None
    return node is not None and not (isinstance(node, Scalar) and node.value is None)
