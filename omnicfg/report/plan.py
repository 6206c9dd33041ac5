"""A plan for people: stage by stage, key and value, and on request where each value comes from."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from omnicfg.origins import is_unset, layer_text
from omnicfg.plan import Plan, StagePlan
from omnicfg.report.table import Cell, render_table
from omnicfg.report.terminal import Style, paragraph
from omnicfg.report.yaml import inline
from omnicfg.secrets import redacted
from omnicfg.tree import LayerKind, Mapping, Node, Scalar, Sequence, leaves, plain

WhyUnset = Callable[[str, StagePlan], str | None]


def render_plan(
    plan: Plan, style: Style, width: int | None, *, explain: bool = False, why_unset: WhyUnset | None = None
) -> str:
    """The whole plan. ``why_unset`` gives the words for an engine arg without a value, where there are any."""
    view = _View(style, width, explain)
    title = f"{plan.profile} on {plan.platform}, pipeline {plan.pipeline}"
    parts = [paragraph(title, width, style, "strong")]
    wide = [(name, node) for name, node in plan.deploy.items.items() if name != "pipeline" and not is_unset(node)]
    parts.append(view.section("pipeline-wide", [entry for name, node in wide for entry in _entries(str(name), node)]))
    for stage in plan.stages:
        parts.append("\n" + paragraph(stage.title, width, style, "strong"))
        for name, entries in _sections(stage):
            reasons = {key: why_unset(key, stage) for key, _ in entries} if why_unset and name == "engine args" else {}
            parts.append(view.section(name, entries, reasons))
    return "".join(parts)


def _sections(stage: StagePlan) -> Iterator[tuple[str, list[tuple[str, Node]]]]:
    topology = stage.tree.without("stage_id", "model_stage", "stage_type", "worker_type")
    topology = topology.without("engine_args", "runtime", "extras")
    yield "topology", [entry for name, node in topology.items.items() for entry in _entries(str(name), node)]
    for title, part in (("engine args", stage.engine_args), ("runtime", stage.runtime), ("extras", stage.extras)):
        yield title, [entry for name, node in part.items.items() for entry in _entries(str(name), node)]


def _entries(name: str, node: Node) -> Iterator[tuple[str, Node]]:
    """The leaves below a key by their dotted paths; a list counts as one value."""
    if isinstance(node, Mapping) and node.items:
        for key, child in node.items.items():
            yield from _entries(f"{name}.{key}", child)
    else:
        yield name, node


class _View:
    def __init__(self, style: Style, width: int | None, explain: bool) -> None:
        self.style = style
        self.width = width
        self.explain = explain

    def section(self, title: str, entries: list[tuple[str, Node]], reasons: dict[str, str | None] | None = None) -> str:
        if not entries:
            return ""
        rows = [self._row(key, node, (reasons or {}).get(key)) for key, node in entries]
        head = self.style("faint", f"  {title}") + "\n"
        return head + render_table(rows, self.style, self.width, indent="    ")

    def _row(self, key: str, node: Node, reason: str | None) -> list[str | Cell]:
        value = inline(redacted(key, plain(node)))
        unset = reason is not None and isinstance(node, Scalar) and node.value is None
        shown = Cell("unset", "faint") if unset else Cell(value, _value_style(node))
        return [
            Cell(key, "name"),
            shown,
            *(self._origin(node) if self.explain else []),
            reason if unset and reason else "",
        ]

    def _origin(self, node: Node) -> list[str | Cell]:
        if node.layer.kind is LayerKind.OVERRIDE:
            return [Cell(node.mark.file, "faint"), ""]
        marks = {f"{layer_text(leaf.layer, leaf.mark)}\0{leaf.mark}": None for _, leaf in leaves(node)}
        if isinstance(node, Sequence) and len(marks) > 1:
            layers = dict.fromkeys(mark.partition("\0")[0] for mark in marks)
            places = dict.fromkeys(mark.partition("\0")[2] for mark in marks)
            return [Cell(", ".join(layers), "faint"), Cell(", ".join(places), "faint")]
        return [Cell(layer_text(node.layer, node.mark), "faint"), Cell(str(node.mark), "faint")]


def _value_style(node: Node) -> str:
    if isinstance(node, Scalar) and isinstance(node.value, bool):
        return "good" if node.value else "bad"
    return ""
