"""Pass 6: what is to be set → the text of a profile, with the old file's comments beside the values that are kept."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from omnicfg.migrate.comments import Comments
from omnicfg.migrate.old_file import OldFile
from omnicfg.migrate.outcome import Wanted
from omnicfg.report.yaml import inline, scalar
from omnicfg.tree import Layer, LayerKind, Mapping, Mark, Node, Route, plain
from omnicfg.tree import Sequence as SequenceNode

_ORDER: Final = ("base_config", "pipeline", "model_runner", "session_mode", "async_chunk")
_LAST: Final = ("connectors", "stages", "platforms")
_NO_LAYER: Final = Layer(LayerKind.PROFILE)


class Placed(NamedTuple):
    """A value and its path in the new file; in ``stages`` the second step is the id."""

    path: Route
    wanted: Wanted
    key_mark: Mark | None


@dataclass
class _Item:
    value: Node | dict[Hashable, _Item]
    above: list[str] = field(default_factory=list)
    behind: str = ""


def emit(old: OldFile | None, head: dict[str, str], placed: Sequence[Placed], marks: dict[Route, Mark]) -> str:
    """The text. ``head`` are the entries it begins with; ``marks`` say where the old file wrote the blocks."""
    return _Emitter(old, marks).text(head, placed)


class _Emitter:
    def __init__(self, old: OldFile | None, marks: dict[Route, Mark]) -> None:
        self.comments = Comments("" if old is None else old.text)
        self.marks = marks
        self.root: dict[Hashable, _Item] = {}

    def text(self, head: dict[str, str], placed: Sequence[Placed]) -> str:
        lines = self.comments.header()
        for each in sorted(placed, key=_position):
            self._put(each)
        lines += [f"{key}: {scalar(value)}" for key, value in head.items()]
        for key in sorted(self.root, key=_top_position):
            if isinstance(self.root[key].value, dict) and lines:
                lines.append("")
            lines += self._entry(key, self.root[key], "")
        return "".join(f"{line}\n" for line in lines)

    def _put(self, placed: Placed) -> None:
        block = self.root
        for depth in range(1, len(placed.path)):
            route = placed.path[:depth]
            item = block.get(route[-1])
            if item is None:
                mark = self.marks.get(route[2:] if route[0] == "platforms" else route)
                item = block[route[-1]] = _Item({}, self.comments.above(mark))
                if mark is not None:
                    item.behind = self._behind_block(mark)
            assert isinstance(item.value, dict)
            block = item.value
        node = placed.wanted.raw
        above, behind = self.comments.above(placed.key_mark), self.comments.behind(placed.key_mark, node)
        block[placed.path[-1]] = _Item(self._value(node), above, behind)

    def _behind_block(self, mark: Mark) -> str:
        below = Mark(mark.file, mark.line + 1)
        return self.comments.behind(mark, Mapping({}, _NO_LAYER, below))

    def _value(self, node: Node) -> Node | dict[Hashable, _Item]:
        """A mapping as items, each with the comments that it was written with."""
        if not isinstance(node, Mapping) or not node.items:
            return node
        items: dict[Hashable, _Item] = {}
        for key, child in node.items.items():
            mark = node.key_marks.get(key)
            items[key] = _Item(self._value(child), self.comments.above(mark), self.comments.behind(mark, child))
        return items

    def _entry(self, key: Hashable, item: _Item, indent: str) -> Iterator[str]:
        yield from (f"{indent}{line}" for line in item.above)
        behind = f"  {item.behind}" if item.behind else ""
        if not isinstance(item.value, dict):
            yield from self._leaf(key, item.value, indent, behind)
            return
        yield f"{indent}{scalar(key)}:{behind}"
        if key == "stages":
            yield from self._stages(item.value, f"{indent}  ")
            return
        for name, child in item.value.items():
            yield from self._entry(name, child, f"{indent}  ")

    def _leaf(self, key: Hashable, node: Node, indent: str, behind: str) -> Iterator[str]:
        value = plain(node)
        has_blocks = isinstance(node, SequenceNode) and any(isinstance(item, dict | list) and item for item in value)
        if not has_blocks:
            yield f"{indent}{scalar(key)}: {inline(value)}{behind}"
            return
        from omnicfg.report.yaml import dumps

        yield f"{indent}{scalar(key)}:{behind}"
        yield from (f"{indent}  {line}" for line in dumps(value).splitlines())

    def _stages(self, stages: dict[Hashable, _Item], indent: str) -> Iterator[str]:
        for number, (stage_id, item) in enumerate(stages.items()):
            if number:
                yield ""
            yield from (f"{indent}{line}" for line in item.above)
            yield f"{indent}- stage_id: {stage_id}" + (f"  {item.behind}" if item.behind else "")
            assert isinstance(item.value, dict)
            for key, child in item.value.items():
                yield from self._entry(key, child, f"{indent}  ")


def _position(placed: Placed) -> tuple[int, int, int]:
    """Stages in their order; within a stage, and elsewhere, the order of the old file."""
    mark = placed.key_mark
    ids = [step for step in placed.path if isinstance(step, int)]
    return (ids[0] if ids else -1, mark.line if mark else 0, mark.column if mark else 0)


def _top_position(key: Hashable) -> int:
    name = str(key)
    if name in _ORDER:
        return _ORDER.index(name)
    return len(_ORDER) + (1 + _LAST.index(name) if name in _LAST else 0)
