"""The edits that mend a finding, made on the text of the file so that every other byte of it stays.

Each function gives a :class:`~omnicfg.diagnostics.Fix`, or ``None`` where the text does not allow one: what an alias
repeats belongs to several places at once, and a value with a tag or an anchor, in block style or out of an expression
is not what it looks like.
"""

from __future__ import annotations

import bisect
import functools
import re
from collections.abc import Hashable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from omnicfg.diagnostics import Edit, Fix
from omnicfg.tree import Mapping, Mark, Node, Scalar, Sequence

if TYPE_CHECKING:
    from omnicfg.rule import Subject

_QUOTES: Final = ("'", '"')
_NO_PLAIN: Final = ("&", "*", "!", "|", ">")  # properties, aliases and block scalars
_BOM: Final = "\ufeff"
# Numbers that every reader of YAML takes for the same (not 010, 0x1F, 1_000, 12:30).
_NUMBER: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")
_WORDS: Final = {
    **dict.fromkeys(("true", "yes", "on"), "true"),
    **dict.fromkeys(("false", "no", "off"), "false"),
}
_TAIL: Final = re.compile(r"[ \t]*(?:#.*)?")
_COMMA: Final = re.compile(r"\s*,[ \t]*(?:(?:\r\n|\n)[ \t]*)?")
_COLON: Final = re.compile(r"[ \t]*:(?=\s|$)")


class Text:
    """The text of a file, addressed by the marks of its tree."""

    def __init__(self, text: str) -> None:
        from omnicfg.passes.read import BREAK

        self.text = text
        breaks = list(re.finditer(BREAK, text))
        # libyaml counts no column for the byte order mark.
        self._starts = [len(_BOM) if text.startswith(_BOM) else 0, *(found.end() for found in breaks)]
        self._ends = [*(found.start() for found in breaks), len(text)]

    def offset(self, line: int, column: int) -> int:
        """The index of a place; past the last line, the end of the text."""
        if line > len(self._starts):
            return len(self.text)
        return min(self._starts[line - 1] + column - 1, len(self.text))

    def span(self, mark: Mark) -> tuple[int, int]:
        """The indices of what a mark covers."""
        return self.offset(mark.line, mark.column), self.offset(mark.end_line, mark.end_column)

    def mark(self, file: str, start: int, end: int) -> Mark:
        """The mark that covers a range of indices."""
        return Mark(file, *self._place(start), *self._place(end))

    def _place(self, index: int) -> tuple[int, int]:
        line = bisect.bisect_right(self._starts, index)
        return max(line, 1), index - self._starts[max(line, 1) - 1] + 1

    def line_of(self, index: int) -> tuple[int, int]:
        """Where the line of an index begins, and where its line break does."""
        line, _ = self._place(index)
        return self._starts[line - 1], self._ends[line - 1]

    def next_line(self, index: int) -> int:
        """Where the line after that of an index begins; the end of the text after the last one."""
        line, _ = self._place(index)
        return self._starts[line] if line < len(self._starts) else len(self.text)

    def is_repeated(self, start: int, end: int) -> bool:
        """Whether a range holds, or lies in, an alias or what an alias repeats."""
        return any(first < max(end, start + 1) and start < last for first, last in self._repeated)

    @functools.cached_property
    def _repeated(self) -> list[tuple[int, int]]:
        if "*" not in self.text:
            return []
        from omnicfg.passes.read import parsed

        return [self.span(mark) for mark in parsed(self.text, lambda events: list(_repeated(events)))]


def _repeated(events: Iterable[tuple[str, Any]]) -> Iterator[Mark]:
    """Every alias, and every anchored node that one repeats."""
    anchored: dict[str, Mark] = {}
    open_nodes: list[tuple[str | None, Mark]] = []
    used: set[str] = set()
    for kind, event in events:
        start, end = event.start_mark, event.end_mark
        mark = Mark("", start.line + 1, start.column + 1, end.line + 1, end.column + 1)
        if kind == "AliasEvent":
            used.add(event.anchor)
            yield mark
        elif kind == "ScalarEvent":
            if event.anchor:
                anchored[event.anchor] = mark
        elif kind.endswith("StartEvent") and kind.startswith(("Mapping", "Sequence")):
            open_nodes.append((event.anchor, mark))
        elif kind.endswith("EndEvent") and kind.startswith(("Mapping", "Sequence")):
            anchor, first = open_nodes.pop()
            if anchor:
                anchored[anchor] = Mark("", first.line, first.column, mark.end_line, mark.end_column)
    yield from (anchored[name] for name in used)


class _Part(NamedTuple):
    """A part of a file: its text, the name that marks give it, and the indices."""

    text: Text
    file: str
    start: int
    end: int

    @property
    def written(self) -> str:
        return self.text.text[self.start : self.end]

    def edit(self, replacement: str) -> Edit:
        return Edit(self.text.mark(self.file, self.start, self.end), replacement)


def _part(subject: Subject, mark: Mark | None) -> _Part | None:
    """What a mark covers, where it stands for itself alone."""
    text = None if mark is None or not mark.column else subject.text(mark.file)
    if mark is None or text is None:
        return None
    start, end = text.span(mark)
    return None if text.is_repeated(start, end) else _Part(text, mark.file, start, end)


def rename_key(subject: Subject, block: Mapping, key: Hashable, name: str, *, safe: bool = True) -> Fix | None:
    """Write ``name`` for ``key``, in quotes if the key is; ``None`` where the block has ``name`` already."""
    part = _part(subject, block.key_marks.get(key))
    if part is None or name in block.items:
        return None
    quote = part.written[:1] if part.written[:1] in _QUOTES else ""
    if part.written != f"{quote}{key}{quote}":
        return None
    return Fix(f"Rename `{key}` to `{name}`", (part.edit(f"{quote}{name}{quote}"),), safe)


def unquote(subject: Subject, node: Node, value: str | None = None) -> Fix | None:
    """Take the quotes away from a boolean or number that every reader of YAML takes for the same.

    ``value`` is what the text stands for where it is not the text itself.
    """
    if not isinstance(node, Scalar) or not isinstance(node.value, str):
        return None
    text = node.value if value is None else value
    bare = _WORDS.get(text.lower()) or (text if _NUMBER.fullmatch(text) else None)
    part = _part(subject, node.mark)
    if bare is None or part is None or part.written not in (f"{quote}{node.value}{quote}" for quote in _QUOTES):
        return None
    return Fix(f"Write `{bare}` without quotes", (part.edit(bare),))


def rewrite_value(subject: Subject, node: Node, value: str | float | bool, *, safe: bool) -> Fix | None:
    """Write another value for a plain or quoted scalar; text stays in quotes if it is in quotes."""
    part = _part(subject, node.mark) if isinstance(node, Scalar) else None
    if part is None or not part.written or part.written.startswith(_NO_PLAIN) or "${" in part.written:
        return None
    from omnicfg.report.yaml import scalar

    quote = part.written[:1] if part.written[:1] in _QUOTES else ""
    plain = scalar(value)
    written = f"{quote}{value}{quote}" if quote and plain == value else plain
    return Fix(f"Write `{written}`", (part.edit(written),), safe)


def remove_key(subject: Subject, block: Mapping, key: Hashable, *, safe: bool = True) -> Fix | None:
    """Remove a key with its value, the lines that are all its own, and the comments that speak of it alone."""
    part = _whole_entry(subject, block, key)
    if part is None or len(block.items) == 1:
        return None
    span = _in_flow(part) if _is_flow(part.text, block) else _in_block(part)
    if span is None or part.text.is_repeated(*span):
        return None
    return Fix(f"Remove `{key}`", (part._replace(start=span[0], end=span[1]).edit(""),), safe)


def empty_block(subject: Subject, owner: Mapping, key: Hashable) -> Fix | None:
    """Remove everything that stands in the mapping under a key."""
    block = owner.items[key]
    entry = _whole_entry(subject, owner, key)
    if entry is None or not isinstance(block, Mapping) or not block.key_marks:
        return None
    title = f"Remove all of `{key}`"
    if _is_flow(entry.text, block):
        start, _ = entry.text.span(block.mark)
        return Fix(title, (entry._replace(start=start).edit("{}"),))
    _, key_end = entry.text.span(owner.key_mark(key))
    colon = _COLON.match(entry.text.text, key_end)
    below = entry.text.next_line(key_end)
    if colon is None or entry.text.span(block.mark)[0] < below or not _ends_its_line(entry):
        return None
    after = entry._replace(start=colon.end(), end=colon.end())
    lines = entry._replace(start=below, end=entry.text.next_line(entry.end))
    return Fix(title, (after.edit(" {}"), lines.edit("")))


def _whole_entry(subject: Subject, block: Mapping, key: Hashable) -> _Part | None:
    """A key with all of its value; ``None`` where the two are not written side by side."""
    mark = block.key_marks.get(key)
    part = _part(subject, mark)
    # A key that stands further in came through a merge key.
    if mark is None or part is None or not (_is_flow(part.text, block) or mark.column == block.mark.column):
        return None
    end = _end_of(part.text, block.items[key], part.file, part.end)
    if end is None or part.text.is_repeated(part.start, end):
        return None
    return part._replace(end=end) if _COLON.match(part.text.text, part.end) or _is_json(part) else None


def _is_json(key: _Part) -> bool:
    """A quoted key in braces may have its value right after the colon."""
    return key.written[:1] in _QUOTES and key.text.text.startswith(":", key.end)


def _end_of(text: Text, node: Node, file: str, least: int) -> int | None:
    """Where a value ends, without the blank lines and comments that a parser counts to it."""
    start, end = text.span(node.mark)
    if node.mark.file != file or start < least:
        return None
    if isinstance(node, Scalar):
        is_block = text.text.startswith(("|", ">"), start)
        return max(len(text.text[:end].rstrip()), start + 1) if is_block else end
    if text.text.startswith(("{", "["), start):
        return end
    if text.text.startswith(("&", "!"), start):
        return None
    last = least
    for child in _children(node):
        found = _end_of(text, child, file, start)
        if found is None:
            return None
        last = max(last, found)
    if isinstance(node, Mapping):
        last = max([last, *(text.span(mark)[1] + 1 for mark in node.key_marks.values())])
    return last


def _children(node: Node) -> list[Node]:
    if isinstance(node, Mapping):
        return list(node.items.values())
    return node.items if isinstance(node, Sequence) else []


def _is_flow(text: Text, block: Mapping) -> bool:
    return text.text.startswith("{", text.span(block.mark)[0])


def _in_flow(entry: _Part) -> tuple[int, int] | None:
    """An entry in braces with one of the commas beside it."""
    text = entry.text.text
    after = _COMMA.match(text, entry.end)
    if after is not None:
        return None if text.startswith("#", after.end()) else (entry.start, after.end())
    before = text[: entry.start].rstrip()
    line, _ = entry.text.line_of(len(before) - 1)
    if not before.endswith(",") or "#" in before[line:]:
        return None
    return len(before) - 1, entry.end


def _in_block(entry: _Part) -> tuple[int, int] | None:
    """The lines of an entry of a block mapping; what follows a list's dash gives its place to the next key."""
    text = entry.text
    line, _ = text.line_of(entry.start)
    indent = text.text[line : entry.start]
    stop = text.next_line(entry.end)
    if not _ends_its_line(entry):
        return None
    if indent.strip():
        following = text.text[stop : stop + len(indent)]
        goes_on = indent.strip(" -") == "" and following == " " * len(indent)
        first = text.text[stop + len(indent) : stop + len(indent) + 1]
        return (entry.start, stop + len(indent)) if goes_on and first not in (" ", "#", "", "\n", "\r") else None
    return (_own_comments(text, line, indent, stop), stop)


def _ends_its_line(entry: _Part) -> bool:
    """Whether nothing but a comment follows on the last line of an entry."""
    _, line_end = entry.text.line_of(entry.end)
    return _TAIL.fullmatch(entry.text.text, entry.end, line_end) is not None


def _own_comments(text: Text, line: int, indent: str, stop: int) -> int:
    """Where the comments begin that stand over an entry, if they do not go on to speak of the key after it."""
    below, _ = text.line_of(stop)
    after = text.text[below + len(indent) : below + len(indent) + 1]
    goes_on = text.text.startswith(indent, below) and after not in ("", " ", "\t", "#", "\n", "\r")
    start = line
    while not goes_on and start > 0:
        above, _ = text.line_of(start - 1)
        if above < start and not text.text.startswith(f"{indent}#", above):
            return start
        start = above if above < start else 0
    return line  # what a file begins with speaks of the file
