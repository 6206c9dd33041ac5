"""Shell text → words with their places. Nothing is run: variables are taken from assignments in the same text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from omnicfg.tree import Mark

_VARIABLE: Final = r"\$(?:\{(?P<name>[A-Za-z_]\w*)(?::?-(?P<default>[^{}$]*))?\}|(?P<bare>[A-Za-z_]\w*))"
_ASSIGNMENT: Final = r"(?:export\s+|ENV\s+|ARG\s+)?([A-Za-z_]\w*)=(.*)\Z"
_OPERATORS: Final = ("&&", "||", ";;", ";", "|", "&", "\n", "(", ")")
MAX_WORDS: Final = 10_000


class Word(NamedTuple):
    """A word of a command: its text after quotes and variables, its place, and the variables that nothing assigns."""

    text: str
    mark: Mark
    unknown: tuple[str, ...] = ()


class _Reader:
    """Reads one text; ``variables`` are those assigned so far."""

    def __init__(self, text: str, shown: str, line: int, variables: dict[str, str], bare_json: bool) -> None:
        self.text = text
        self.shown = shown
        self.variables = variables
        self.bare_json = bare_json
        self.at = 0
        self.line = line
        self.line_start = 0
        self.unknown: list[str] = []

    def commands(self) -> Iterator[list[Word]]:
        words: list[Word] = []
        count = 0
        while (word := self._next()) is not None:
            count += 1
            if count > MAX_WORDS:
                break
            if isinstance(word, Word):
                words.append(word)
                continue
            yield from self._finished(words)
            words = []
        yield from self._finished(words)

    def _finished(self, words: list[Word]) -> Iterator[list[Word]]:
        """A command without the assignments before it; one of nothing but assignments is remembered."""
        rest = list(words)
        if rest and rest[0].text in ("export", "ENV", "ARG"):
            rest = [word._replace(text=f"export {word.text}") for word in rest[1:]]
        while rest and (match := re.match(_ASSIGNMENT, rest[0].text, re.DOTALL)):
            self.variables[match[1]] = match[2]
            rest.pop(0)
        if rest:
            yield rest

    def _next(self) -> Word | str | None:
        """The next word, an operator, or ``None`` at the end."""
        self._skip_blanks()
        if self.at >= len(self.text):
            return None
        for operator in _OPERATORS:
            if self.text.startswith(operator, self.at):
                self._advance(len(operator))
                return operator
        line, column = self.line, self.at - self.line_start + 1
        self.unknown = []
        parts: list[str] = []
        if self.bare_json and self.text[self.at] == "{":
            parts.append(self._json())
        while self.at < len(self.text) and not self._at_end_of_word():
            parts.append(self._piece())
        mark = Mark(self.shown, line, column, self.line, self.at - self.line_start + 1)
        return Word("".join(parts), mark, tuple(dict.fromkeys(self.unknown)))

    def _json(self) -> str:
        """A JSON object without quotes around it, which a shell would take apart; nothing where there is none."""
        try:
            _, end = json.JSONDecoder().raw_decode(self.text, self.at)
        except (ValueError, RecursionError):
            return ""
        return self._taken(end)

    def _skip_blanks(self) -> None:
        while self.at < len(self.text):
            if self.text[self.at] in " \t\r":
                self._advance(1)
            elif self.text.startswith(("\\\n", "\\\r\n"), self.at):
                self._advance(self.text.index("\n", self.at) - self.at + 1)
            elif self.text[self.at] == "#":
                self._advance((self.text.find("\n", self.at) + 1 or len(self.text) + 1) - self.at - 1)
            else:
                return

    def _at_end_of_word(self) -> bool:
        return self.text[self.at] in " \t\r\n;|&()" or self.text.startswith(("\\\n", "\\\r\n"), self.at)

    def _piece(self) -> str:
        character = self.text[self.at]
        if character == "'":
            end = self.text.find("'", self.at + 1)
            end = len(self.text) if end < 0 else end
            return self._taken(end + 1)[1:].removesuffix("'")
        if character == '"':
            return self._double_quoted()
        if character == "\\" and self.at + 1 < len(self.text):
            return self._taken(self.at + 2)[1:]
        if character == "$":
            return self._variable()
        return self._taken(self.at + 1)

    def _double_quoted(self) -> str:
        self._advance(1)
        parts: list[str] = []
        while self.at < len(self.text) and self.text[self.at] != '"':
            if self.text[self.at] == "\\" and self.text[self.at + 1 : self.at + 2] in ('"', "\\", "$", "`", "\n"):
                escaped = self._taken(self.at + 2)[1:]
                parts.append("" if escaped == "\n" else escaped)
            elif self.text[self.at] == "$":
                parts.append(self._variable())
            else:
                parts.append(self._taken(self.at + 1))
        self._advance(1)
        return "".join(parts)

    def _variable(self) -> str:
        match = re.compile(_VARIABLE).match(self.text, self.at)
        if match is None:
            return self._taken(self.at + 1)
        self._advance(match.end() - self.at)
        name = match["name"] or match["bare"]
        if name in self.variables:
            return self.variables[name]
        if match["default"] is not None:
            return match["default"]
        self.unknown.append(name)
        return match[0]

    def _taken(self, end: int) -> str:
        taken = self.text[self.at : end]
        self._advance(len(taken))
        return taken

    def _advance(self, count: int) -> None:
        passed = self.text[self.at : self.at + count]
        breaks = passed.count("\n")
        if breaks:
            self.line += breaks
            self.line_start = self.at + passed.rindex("\n") + 1
        self.at += count


def commands(
    text: str,
    shown: str,
    *,
    line: int = 1,
    variables: dict[str, str] | None = None,
    bare_json: bool = False,
) -> list[list[Word]]:
    """The simple commands of a shell text, each as its words; assignments are taken in and left out.

    ``variables`` holds what is already assigned, and gets what the text assigns. With ``bare_json`` a JSON object that
    nothing quotes is one word, since inside the quotes of a whole command there are none left for it.
    """
    return list(_Reader(text, shown, line, {} if variables is None else variables, bare_json).commands())
