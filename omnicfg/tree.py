"""The one value that travels through every pass: a YAML-shaped tree that knows where it came from.

Every node carries the place it was written at (:class:`Mark`), the layer that contributed it (:class:`Layer`) and
the settings it won against (:class:`Beaten`). Provenance is therefore part of the value: a pass that merges two
trees cannot forget to record it, because :func:`over` is the only way to put one node on top of another.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from enum import Enum
from typing import Any, NamedTuple, Self

Route = tuple[Hashable, ...]


class LayerKind(Enum):
    """What contributed a value, in the order in which layers are applied (lowest precedence first)."""

    ENGINE_DEFAULT = "vllm default"
    TOPOLOGY = "topology"
    DEFAULT = "default"
    BASE = "base"
    PROFILE = "profile"
    OVERLAY = "overlay"
    PLATFORM = "platform"
    OVERRIDE = "--set"


class Layer(NamedTuple):
    """A layer: its kind and, where there can be several of a kind, which one (file, platform, version)."""

    kind: LayerKind
    name: str = ""

    def __str__(self) -> str:
        return f"{self.kind.value} {self.name}".rstrip()


class Mark(NamedTuple):
    """A place in a text: lines and columns count from 1; the end is exclusive. Line 0 means "no line known"."""

    file: str
    line: int = 0
    column: int = 0
    end_line: int = 0
    end_column: int = 0

    def __str__(self) -> str:
        if not self.line:
            return self.file
        return f"{self.file}:{self.line}:{self.column}" if self.column else f"{self.file}:{self.line}"


class Beaten(NamedTuple):
    """A setting that lost: its node (with its own layer and mark), why it lost, and what it lost against."""

    node: Node
    reason: str
    by: Node | None = None


class Node:
    """A value with its origin. Treated as immutable once a pass has returned it."""

    __slots__ = ("beaten", "layer", "mark")

    def __init__(self, layer: Layer, mark: Mark, beaten: tuple[Beaten, ...] = ()) -> None:
        self.layer = layer
        self.mark = mark
        self.beaten = beaten

    def copy(self) -> Self:
        """A shallow copy: same children, same history."""
        raise NotImplementedError


class Scalar(Node):
    """A leaf. ``quoted`` tells a YAML string written in quotes or as a block from a plain scalar."""

    __slots__ = ("quoted", "text", "value")

    def __init__(
        self,
        value: Any,
        layer: Layer,
        mark: Mark,
        beaten: tuple[Beaten, ...] = (),
        *,
        quoted: bool = False,
        text: str | None = None,
    ) -> None:
        super().__init__(layer, mark, beaten)
        self.value = value
        self.quoted = quoted
        self.text = text

    def copy(self) -> Scalar:
        return Scalar(self.value, self.layer, self.mark, self.beaten, quoted=self.quoted, text=self.text)

    def __repr__(self) -> str:
        return f"Scalar({self.value!r} @ {self.mark}, {self.layer})"


class Mapping(Node):
    """A mapping. ``key_marks`` holds the place of each key that was written in a file."""

    __slots__ = ("items", "key_marks")

    def __init__(
        self,
        items: dict[Hashable, Node],
        layer: Layer,
        mark: Mark,
        beaten: tuple[Beaten, ...] = (),
        *,
        key_marks: dict[Hashable, Mark] | None = None,
    ) -> None:
        super().__init__(layer, mark, beaten)
        self.items = items
        self.key_marks = {} if key_marks is None else key_marks

    def copy(self) -> Mapping:
        return Mapping(dict(self.items), self.layer, self.mark, self.beaten, key_marks=dict(self.key_marks))

    def get(self, key: Hashable) -> Node | None:
        return self.items.get(key)

    def value(self, key: Hashable, default: Any = None) -> Any:
        """The plain value under ``key``; ``default`` where the key is absent."""
        node = self.items.get(key)
        return default if node is None else plain(node)

    def mapping(self, key: Hashable) -> Mapping:
        """The entry that a pass has put there as a mapping; anything else is a bug, not bad input."""
        node = self.items[key]
        if not isinstance(node, Mapping):
            raise TypeError(f"{key!r} is no mapping: {node!r}")
        return node

    def sequence(self, key: Hashable) -> Sequence:
        """The entry that a pass has put there as a list; anything else is a bug, not bad input."""
        node = self.items[key]
        if not isinstance(node, Sequence):
            raise TypeError(f"{key!r} is no list: {node!r}")
        return node

    def put(self, key: Hashable, node: Node, key_mark: Mark | None = None) -> None:
        self.items[key] = node
        if key_mark is not None:
            self.key_marks[key] = key_mark

    def without(self, *keys: Hashable) -> Mapping:
        """A copy that lacks ``keys``."""
        lean = self.copy()
        for key in keys:
            lean.items.pop(key, None)
            lean.key_marks.pop(key, None)
        return lean

    def key_mark(self, key: Hashable) -> Mark:
        """Where the key is written; the value's own place where no key was written (defaults, topology)."""
        return self.key_marks.get(key) or self.items[key].mark

    def __repr__(self) -> str:
        return f"Mapping({list(self.items)} @ {self.mark}, {self.layer})"


class Sequence(Node):
    """A list."""

    __slots__ = ("items",)

    def __init__(self, items: list[Node], layer: Layer, mark: Mark, beaten: tuple[Beaten, ...] = ()) -> None:
        super().__init__(layer, mark, beaten)
        self.items = items

    def mappings(self) -> list[Mapping]:
        """The items that are mappings."""
        return [item for item in self.items if isinstance(item, Mapping)]

    def copy(self) -> Sequence:
        return Sequence(list(self.items), self.layer, self.mark, self.beaten)

    def __repr__(self) -> str:
        return f"Sequence(len {len(self.items)} @ {self.mark}, {self.layer})"


def plain(node: Node) -> Any:
    """The tree as dicts, lists and scalars, without origins."""
    if isinstance(node, Scalar):
        return node.value
    if isinstance(node, Mapping):
        return {key: plain(child) for key, child in node.items.items()}
    if isinstance(node, Sequence):
        return [plain(child) for child in node.items]
    raise TypeError(f"not a tree node: {node!r}")


def grow(value: Any, layer: Layer, mark: Mark) -> Node:
    """A tree from plain dicts, lists (or tuples) and scalars, every node at the same place of the same layer."""
    if isinstance(value, dict):
        return Mapping({key: grow(child, layer, mark) for key, child in value.items()}, layer, mark)
    if isinstance(value, list | tuple):
        return Sequence([grow(child, layer, mark) for child in value], layer, mark)
    return Scalar(value, layer, mark)


def relabel(node: Node, layer: Layer) -> Node:
    """The same tree, contributed by another layer (a platform block lies in a file but is a layer of its own)."""
    copy = node.copy()
    copy.layer = layer
    copy.beaten = tuple(beaten._replace(node=relabel(beaten.node, layer)) for beaten in node.beaten)
    if isinstance(copy, Mapping):
        copy.items = {key: relabel(child, layer) for key, child in copy.items.items()}
    elif isinstance(copy, Sequence):
        copy.items = [relabel(child, layer) for child in copy.items]
    return copy


def over(winner: Node, loser: Node | None, reason: str) -> Node:
    """``winner`` on top of ``loser``: a copy of the winner whose history starts with what it beat.

    Where both are mappings, the entries of ``loser`` that have a successor of the same name are linked to it, so
    that a leaf of a replaced block still knows the value that it replaced.
    """
    if loser is None:
        return winner
    topped = winner.copy()
    topped.beaten = (*winner.beaten, Beaten(_alone(loser), reason, winner), *loser.beaten)
    if isinstance(topped, Mapping) and isinstance(loser, Mapping):
        for key, child in topped.items.items():
            previous = loser.items.get(key)
            if previous is not None:
                topped.items[key] = over(child, previous, reason)
    return topped


def _alone(node: Node) -> Node:
    """The node without its history, which its winner takes over: kept twice, it would double with every layer."""
    if not node.beaten:
        return node
    bare = node.copy()
    bare.beaten = ()
    return bare


def without_history(node: Node, layer: Callable[[Layer], Layer] | None = None) -> Node:
    """The same tree as if it had been set over nothing, by what ``layer`` says of each node's layer."""
    bare = node.copy()
    bare.beaten = ()
    if layer is not None:
        bare.layer = layer(bare.layer)
    if isinstance(bare, Mapping):
        bare.items = {key: without_history(child, layer) for key, child in bare.items.items()}
    elif isinstance(bare, Sequence):
        bare.items = [without_history(child, layer) for child in bare.items]
    return bare


def deep_merge(base: Mapping, update: Mapping, reason: str) -> Mapping:
    """``update`` merged into ``base``: mappings merge key by key, everything else is replaced."""
    merged = base.copy()
    for key, node in update.items.items():
        previous = merged.items.get(key)
        if isinstance(previous, Mapping) and isinstance(node, Mapping):
            merged.put(key, deep_merge(previous, node, reason), update.key_marks.get(key))
        else:
            merged.put(key, over(node, previous, reason), update.key_marks.get(key))
    return merged


def leaves(node: Node, path: Route = ()) -> Iterator[tuple[Route, Node]]:
    """Every leaf with its path, in document order; empty mappings and lists count as leaves."""
    if isinstance(node, Mapping) and node.items:
        for key, child in node.items.items():
            yield from leaves(child, (*path, key))
    elif isinstance(node, Sequence) and node.items:
        for index, child in enumerate(node.items):
            yield from leaves(child, (*path, index))
    else:
        yield path, node


def find(node: Node | None, path: Route) -> Node | None:
    """The node at ``path`` or ``None``; list items are addressed by position."""
    for step in path:
        if isinstance(node, Mapping):
            node = node.items.get(step)
        elif isinstance(node, Sequence) and isinstance(step, int) and 0 <= step < len(node.items):
            node = node.items[step]
        else:
            return None
    return node


def dotted(path: Route) -> str:
    """``stages.0.max_num_seqs`` for humans and for ``--set``."""
    return ".".join(str(step) for step in path)
