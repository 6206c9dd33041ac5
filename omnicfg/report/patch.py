"""What fixes would change, as a unified diff (https://www.gnu.org/software/diffutils/manual/, "Unified Format")."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from omnicfg.fixes.fix import Change
from omnicfg.report.source import line_at
from omnicfg.report.terminal import Style, one_line, printable

_CONTEXT = 3
_STYLES = {"-": "bad", "+": "good"}


def render_patch(changes: Iterable[Change], *, colour: bool = False) -> str:
    """The changes of each file. Credentials are hidden, in the lines around a change too."""
    return "".join(line for change in changes for line in _file(change, Style(colour)))


class _Side(NamedTuple):
    """The lines of a text as other tools count them, each with its line feed, which the last one may lack; and bare."""

    lines: list[str]
    bare: list[str]

    @classmethod
    def of(cls, text: str) -> _Side:
        *full, last = text.split("\n")
        lines = [f"{line}\n" for line in full] + ([last] if last else [])
        return cls(lines, [line.rstrip("\r\n") for line in lines])


def _file(change: Change, style: Style) -> Iterator[str]:
    before, after = _Side.of(change.before), _Side.of(change.after)
    yield style("strong", f"--- {one_line(str(change.path))}") + "\n"
    yield style("strong", f"+++ {one_line(str(change.path))}") + "\n"
    for group in difflib.SequenceMatcher(None, before.lines, after.lines, autojunk=False).get_grouped_opcodes(_CONTEXT):
        first, last = group[0], group[-1]
        yield style("place", f"@@ -{_range(first[1], last[2])} +{_range(first[3], last[4])} @@") + "\n"
        for tag, start, stop, new_start, new_stop in group:
            if tag == "equal":
                yield from (_line(" ", before, index, style) for index in range(start, stop))
                continue
            yield from (_line("-", before, index, style) for index in range(start, stop))
            yield from (_line("+", after, index, style) for index in range(new_start, new_stop))


def _range(start: int, stop: int) -> str:
    """First line and number of lines; an empty range names the line before it."""
    return f"{start + 1 if stop > start else start},{stop - start}"


def _line(sign: str, side: _Side, index: int, style: Style) -> str:
    shown = sign + "".join(printable(piece) for _, _, piece in line_at(side.bare, index).pieces)
    end = side.lines[index][len(side.bare[index]) :]
    return (style(_STYLES[sign], shown) if sign in _STYLES else shown) + (end or "\n\\ No newline at end of file\n")
