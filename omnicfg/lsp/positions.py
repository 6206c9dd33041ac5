"""Places in a text as the protocol counts them: lines and columns from 0, columns in the units of an encoding.

https://microsoft.github.io/language-server-protocol/specifications/lsp/3.17/specification/#position. Its line breaks
are fewer than YAML's, so both ways lead over the index of a character.
"""

from __future__ import annotations

import bisect
import re
from typing import Final

from omnicfg.fixes.edits import Text
from omnicfg.tree import Mark

_BREAK: Final = re.compile(r"\r\n|\n|\r")


class Positions:
    """One text, and how many units of an encoding (``utf-8``, ``utf-16``, ``utf-32``) its characters take."""

    def __init__(self, text: str, encoding: str = "utf-16") -> None:
        self.text = Text(text)
        self._encoding = encoding
        self._starts = [0, *(found.end() for found in _BREAK.finditer(text))]

    def of_index(self, index: int) -> tuple[int, int]:
        """Line and column of a character."""
        line = bisect.bisect_right(self._starts, index) - 1
        return line, sum(map(self._units, self.text.text[self._starts[line] : index]))

    def of_mark(self, mark: Mark) -> tuple[tuple[int, int], tuple[int, int]]:
        """The positions between which a mark lies; at the start of the text, where it has no line."""
        if not mark.line:
            return (0, 0), (0, 0)
        start, end = self.text.span(mark)
        return self.of_index(start), self.of_index(max(start, end))

    def place(self, line: int, column: int) -> tuple[int, int]:
        """Line and column of a position as marks count them. Past the end of a line is its end."""
        index = self.index(line, column)
        mark = self.text.mark("", index, index)
        return mark.line, mark.column

    def index(self, line: int, column: int) -> int:
        """The character at a position."""
        if line >= len(self._starts):
            return len(self.text.text)
        start = self._starts[line]
        found = _BREAK.search(self.text.text, start)
        units = 0
        for index in range(start, found.start() if found else len(self.text.text)):
            if units >= column:
                return index
            units += self._units(self.text.text[index])
        return found.start() if found else len(self.text.text)

    def _units(self, character: str) -> int:
        if self._encoding == "utf-16":
            return 1 if character < "\U00010000" else 2
        return len(character.encode()) if self._encoding == "utf-8" else 1
