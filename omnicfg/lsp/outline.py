"""The outline of a profile: what an editor lists to jump to."""

from __future__ import annotations

from typing import NamedTuple

from omnicfg.tree import Mapping, Mark, Node, Sequence

_NAMED = ("connectors", "platforms")  # blocks whose entries have names of their own


class Symbol(NamedTuple):
    """One entry: its name, where the name is written, and all that belongs to it."""

    name: str
    name_mark: Mark
    whole: Mark
    children: tuple[Symbol, ...] = ()


def symbols_of(document: Mapping) -> list[Symbol]:
    """The top-level keys, with the stages, the connectors, and the platforms and their stages."""
    return [_entry(str(key), document.key_mark(key), node) for key, node in document.items.items()]


def _entry(name: str, mark: Mark, node: Node) -> Symbol:
    return Symbol(name, mark, _joined(mark, node.mark), tuple(_children(name, node)))


def _children(name: str, node: Node) -> list[Symbol]:
    if name == "stages" and isinstance(node, Sequence):
        return [
            Symbol(f"stage {entry.value('stage_id')}", entry.items["stage_id"].mark, entry.mark)
            for entry in node.mappings()
            if "stage_id" in entry.items and _holds(entry.mark, entry.items["stage_id"].mark)
        ]
    if isinstance(node, Mapping) and (name in _NAMED or "stages" in node.items):
        return [_entry(str(key), node.key_mark(key), child) for key, child in node.items.items()]
    return []


def _holds(whole: Mark, mark: Mark) -> bool:
    """Whether a mark lies in another one; what an alias repeats does not."""
    ends = (mark.end_line, mark.end_column) <= (whole.end_line, whole.end_column)
    return (whole.line, whole.column) <= (mark.line, mark.column) and ends


def _joined(mark: Mark, other: Mark) -> Mark:
    """From the start of a mark to the end of another; the mark alone, where the other is written before it."""
    if other < mark or (other.end_line, other.end_column) < (mark.end_line, mark.end_column):
        return mark
    return Mark(mark.file, mark.line, mark.column, other.end_line, other.end_column)
