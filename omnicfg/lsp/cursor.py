"""From a place in a file to the setting that stands there."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from omnicfg.tree import Mapping, Mark, Node, Route, Scalar, Sequence, find

_BLOCKS = ("engine_args", "engine_extras", "runtime")  # other spellings of a stage's own keys


class Cursor(NamedTuple):
    """The setting under a cursor: its route in the file, the mark of its key or value that was hit, and its node."""

    route: Route
    mark: Mark
    node: Node


def setting_at(document: Mapping, line: int, column: int) -> Cursor | None:
    """The innermost setting whose key or value covers a place (from 1); ``None`` between settings."""
    return _within(document, (), (line, column))


def _within(node: Node, route: Route, place: tuple[int, int]) -> Cursor | None:
    for step, child, key_mark in _children(node):
        if key_mark is not None and _covers(key_mark, place):
            return Cursor((*route, step), key_mark, child)
        # What an alias repeats is written elsewhere.
        if not _covers(child.mark, place) or (key_mark is not None and child.mark < key_mark):
            continue
        inner = _within(child, (*route, step), place)
        is_leaf = not isinstance(child, Mapping | Sequence)
        return inner or (Cursor((*route, step), child.mark, child) if is_leaf else None)
    return None


def _children(node: Node) -> list[tuple[Hashable, Node, Mark | None]]:
    if isinstance(node, Mapping):
        return [(key, child, node.key_marks.get(key)) for key, child in node.items.items()]
    return [(index, child, None) for index, child in enumerate(node.items)] if isinstance(node, Sequence) else []


def _covers(mark: Mark, place: tuple[int, int]) -> bool:
    """Whether a mark covers a place; a cursor right behind a word is still on it."""
    return (mark.line, mark.column) <= place <= (mark.end_line, mark.end_column)


def plan_key(document: Mapping, route: Route) -> str | None:
    """How a setting of a file is called in a plan, as ``omnicfg explain`` takes it; ``None`` for what is none."""
    block: Node | None = document
    if route[0] == "platforms":
        block, route = find(document, route[:2]), route[2:]
    if route[:1] == ("stages",):
        steps = _stage_route(block, route)
    else:
        steps = () if route[:1] in ((), ("base_config",), ("platforms",)) else route
    words = [str(step) for step in steps]
    return ".".join(words) if words and all(word and "." not in word for word in words) else None


def _stage_route(block: Node | None, route: Route) -> Route:
    """``("stages", 1, "engine_args", "seed")``: the same with the stage's id for its position, in the flat spelling."""
    stage_id = find(block, (*route[:2], "stage_id"))
    rest = route[3:] if route[2:3] and route[2] in _BLOCKS else route[2:]
    value = stage_id.value if isinstance(stage_id, Scalar) else None
    if not rest or rest[0] == "stage_id" or not isinstance(value, int) or isinstance(value, bool):
        return ()
    return ("stages", value, *rest)
