"""A CEL expression as text: where its parts stand in the policy file, what it names, and whether it is about one stage.

Nothing here evaluates; strings and comments are blanked first, so that what they hold is not taken for code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from omnicfg.passes.read import BREAK
from omnicfg.tree import Mark

MAX_LENGTH: Final = 4000
_LITERAL: Final = re.compile(
    r"""[rRbB]{0,2}(?:'''(?s:.*?)'''|\"\"\"(?s:.*?)\"\"\"|'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")|//[^\n]*"""
)
_OVER_STAGES: Final = re.compile(r"\s*stages\s*\.\s*(?P<macro>exists|all)\s*\(\s*(?P<variable>[A-Za-z_]\w*)\s*,")
_NAME: Final = r"\s*\.\s*(?P<name>[A-Za-z_]\w*)\b(?!\s*\()"  # what brackets follow is a macro or a function
_SETTING: Final = re.compile(rf"\.\s*(?P<part>engine_args|effective|runtime|extras){_NAME}")
_DEPLOY: Final = re.compile(rf"(?<![.\w])(?P<part>deploy){_NAME}")


class Setting(NamedTuple):
    """A setting that an expression names: the part of the stage or ``deploy``, its name, and where that begins."""

    part: str
    name: str
    start: int


class Body(NamedTuple):
    """What an expression asks of each single stage: ``variable`` stands for the stage in ``text``."""

    variable: str
    text: str


class Expression:
    """An expression and where it is written. ``source`` is the policy file's text."""

    def __init__(self, text: str, mark: Mark, source: str) -> None:
        self.text = text
        self.mark = mark
        self._source = source
        self.code = _LITERAL.sub(lambda found: " " * len(found[0]), text)

    def settings(self) -> Iterator[Setting]:
        """The engine args and other settings of stages that it names, in order."""
        return map(_setting, _SETTING.finditer(self.code))

    def deploy_settings(self) -> Iterator[Setting]:
        """The settings of the profile as a whole that it names, in order."""
        return map(_setting, _DEPLOY.finditer(self.code))

    def body(self, macro: str) -> Body | None:
        """``PART`` of ``stages.exists(VARIABLE, PART)``, where the whole expression is that macro."""
        found = _OVER_STAGES.match(self.code)
        if found is None or found["macro"] != macro:
            return None
        end = _closing(self.code, found.end())
        if end is None or self.code[end + 1 :].strip():
            return None
        return Body(found["variable"], self.text[found.end() : end])

    def index(self, line: int, column: int) -> int:
        """The position of a line and column (from 1) of the expression in its text."""
        lines = self.text.split("\n")
        return min(sum(len(each) + 1 for each in lines[: line - 1]) + column - 1, len(self.text))

    def place(self, index: int, length: int = 1) -> Mark:
        """Where a part of the expression is written in the file.

        YAML folds lines and escapes characters, so the text of the file is walked beside that of the expression.
        """
        at = self._at(self.text[:index])
        line, column = _line_and_column(self._source, at)
        return Mark(self.mark.file, line, column, line, column + length)

    def _at(self, before: str) -> int:
        position = _offset(self._source, self.mark.line, self.mark.column)
        if self._source[position : position + 1] in ("|", ">"):
            position = self._source.find("\n", position) + 1
        elif self._source[position : position + 1] in ("'", '"'):
            position += 1
        end = _offset(self._source, self.mark.end_line, self.mark.end_column)
        position = _past_space(self._source, position)
        for character in before.lstrip():
            if character.isspace():
                position = _past_space(self._source, position)
            else:
                found = self._source.find(character, position, end)
                position = found + 1 if found >= 0 else position
        return _past_space(self._source, position) if before[-1:].isspace() else position


def _setting(found: re.Match[str]) -> Setting:
    return Setting(found["part"], found["name"], found.start("name"))


def _closing(code: str, start: int) -> int | None:
    """The bracket that ends what begins at ``start``."""
    depth = 0
    for position in range(start, len(code)):
        if code[position] in "([{":
            depth += 1
        elif code[position] in ")]}":
            if not depth:
                return position
            depth -= 1
    return None


def _past_space(text: str, position: int) -> int:
    while position < len(text) and text[position].isspace():
        position += 1
    return position


def _starts(text: str) -> list[int]:
    return [0, *(found.end() for found in re.finditer(BREAK, text))]


def _offset(text: str, line: int, column: int) -> int:
    starts = _starts(text)
    return min(starts[line - 1] + column - 1, len(text)) if line <= len(starts) else len(text)


def _line_and_column(text: str, offset: int) -> tuple[int, int]:
    line = sum(1 for start in _starts(text) if start <= offset)
    return line, offset - _starts(text)[line - 1] + 1
