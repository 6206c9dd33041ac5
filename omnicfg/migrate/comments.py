"""The comments of an old file: those above a line, and the one behind it. Each is given away once."""

from __future__ import annotations

import re
from typing import Final

from omnicfg.tree import Mapping, Mark, Node, Sequence

_BEHIND_KEY: Final = r"[^#\n]*:\s+(#.*)"


class Comments:
    """The comments of a text."""

    def __init__(self, text: str) -> None:
        self.lines = text.splitlines()
        self.taken: set[int] = set()

    def header(self) -> list[str]:
        """The comments that the file begins with, but for a marker of the document's start."""
        found: list[str] = []
        for number, line in enumerate(self.lines, start=1):
            stripped = line.strip()
            if stripped.startswith("#"):
                self.taken.add(number)
                found.append(stripped)
            elif stripped and stripped != "---":
                break
            elif not stripped and found and found[-1]:
                found.append("")
        return found[:-1] if found and not found[-1] else found

    def above(self, mark: Mark | None) -> list[str]:
        """The comment lines right above a line."""
        if mark is None or not mark.line:
            return []
        found: list[str] = []
        number = mark.line - 1
        while 0 < number <= len(self.lines) and number not in self.taken:
            stripped = self.lines[number - 1].strip()
            if not stripped.startswith("#"):
                break
            found.append(stripped)
            self.taken.add(number)
            number -= 1
        return found[::-1]

    def behind(self, key_mark: Mark | None, node: Node) -> str:
        """The comment behind a value, or behind the key of a block."""
        if key_mark is None or not key_mark.line or key_mark.line > len(self.lines) or key_mark.line in self.taken:
            return ""
        mark = node.mark
        is_block = isinstance(node, Mapping | Sequence) and mark.line > key_mark.line
        if is_block:
            line, rest = key_mark.line, ""
            match = re.match(_BEHIND_KEY, self.lines[key_mark.line - 1])
            rest = match[1] if match else ""
        elif mark.end_line == key_mark.line:
            line, rest = mark.end_line, self.lines[mark.end_line - 1][mark.end_column - 1 :].strip()
        else:
            return ""
        if not rest.startswith("#"):
            return ""
        self.taken.add(line)
        return rest
