"""A value's origin in words and as data: which layer set it, where, and what it won against."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any, Final

from omnicfg.secrets import flag_of, redacted
from omnicfg.tree import Layer, LayerKind, Mapping, Mark, Node, Route, Scalar, Sequence, plain

_WRITTEN: Final = frozenset(
    {LayerKind.BASE, LayerKind.PROFILE, LayerKind.OVERLAY, LayerKind.PLATFORM, LayerKind.OVERRIDE}
)


def is_written(node: Node) -> bool:
    """Whether a file or the command line says it, rather than a default or the topology."""
    return node.layer.kind in _WRITTEN


def is_unset(node: Node) -> bool:
    """Whether a field of the deploy language has no value: nothing sets it, and its default is null."""
    return node.layer.kind is LayerKind.DEFAULT and isinstance(node, Scalar) and node.value is None


def is_flag(node: Node) -> bool:
    """Whether a flag of a `vllm serve` command says it, which goes over every file as a ``--set`` does."""
    return node.layer.kind is LayerKind.OVERRIDE and not node.mark.file.startswith("--set")


def layer_text(layer: Layer, mark: Mark) -> str:
    """The layer without what its place says anyway: ``base``, ``platform npu``, ``topology minicpmo_4_5``."""
    return layer.kind.value if layer.name == PurePath(mark.file).name else str(layer)


def origin_text(node: Node) -> str:
    """``platform npu, minicpmo_4_5_turn.yaml:18:32``; for a setting of the command line, that setting."""
    if node.layer.kind is LayerKind.OVERRIDE:
        return node.mark.file
    return f"{layer_text(node.layer, node.mark)}, {node.mark}"


def told_to_set(key: str, value: str, now: Node | None, stage_id: int | None = None) -> str:
    """What to do so that a key has another value: said where it counts over ``now``, which is what counts now.

    Only another ``--set`` goes over a ``--set``, a flag over a flag, and a platform's block over a platform's block.
    """
    layer = Layer(LayerKind.DEFAULT) if now is None else now.layer
    if now is not None and is_flag(now):
        if stage_id is not None:
            return f'Give `"{key}": {value}` for stage {stage_id} in `--stage-overrides`'
        flag = key.replace("_", "-")
        return f"Give `--no-{flag}`" if value == "false" else f"Give `--{flag} {value}`"
    if layer.kind is LayerKind.OVERRIDE:
        return f"Give `--set {'' if stage_id is None else f'stages.{stage_id}.'}{key}={value}`"
    stage = "" if stage_id is None else f" for stage {stage_id}"
    block = f" in the block of {layer.name}" if layer.kind is LayerKind.PLATFORM else ""
    return f"Set `{key}: {value}`{stage}{block}"


def origin_data(node: Node) -> dict[str, Any]:
    """``{"layer", "file", "line", "column"}``; line and column are null where there is none."""
    mark = node.mark
    return {
        "layer": str(node.layer),
        "file": mark.file,
        "line": mark.line or None,
        "column": mark.column or None,
    }


def explained(node: Node, route: Route = ()) -> Any:
    """The tree as data in which each leaf is ``{"value", "origin", "beaten"}``; credentials are hidden.

    ``beaten`` lists what the leaf won against, the last one that lost first, each with its value and origin and the
    reason. Empty mappings and lists are leaves.
    """
    if isinstance(node, Mapping) and node.items:
        return {name: explained(child, (*route, name)) for name, child in node.items.items()}
    if isinstance(node, Sequence) and node.items:
        flags = ["", *(flag_of(plain(child)) for child in node.items)]
        return [explained(child, (*route, flag)) for child, flag in zip(node.items, flags, strict=False)]
    return {"value": redacted(route, plain(node)), "origin": origin_data(node), "beaten": beaten_data(node, route)}


def beaten_data(node: Node, key: object) -> list[dict[str, Any]]:
    """What a node won against: value, origin and reason of each loser."""
    return [
        {"value": redacted(key, plain(lost.node)), "origin": origin_data(lost.node), "reason": lost.reason}
        for lost in node.beaten
    ]
