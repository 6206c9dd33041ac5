"""Where the keys and values of a TOML text stand, which Python's own reader does not tell.

Made for texts that ``tomllib`` has read (https://toml.io/en/v1.0.0): what is wrong with others, it says better.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Final, NamedTuple

from omnicfg.fixes.edits import Text
from omnicfg.tree import Mark

Route = tuple[str | int, ...]

_SPACE: Final = re.compile(r"[ \t]*")
_GAP: Final = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_STRINGS: Final = (
    r'"""(?:[^\\]|\\.)*?"{3,5}(?!")',  # up to two quotes of its own before the end
    r"'''.*?'{3,5}(?!')",
    r'"(?:[^"\\\n]|\\.)*"',
    r"'[^'\n]*'",
)
_STRING: Final = re.compile("|".join(_STRINGS), re.DOTALL)
_SCALAR: Final = re.compile(r"[^,\]}#\n]*")


class Place(NamedTuple):
    """The marks of a key (none for an item of a list) and of its value."""

    key: Mark | None
    value: Mark


def places(text: str, file: str) -> dict[Route, Place]:
    """Route → place, for every key and every item of a list that the text holds."""
    return _Scanner(text, file).scan()


class _Scanner:
    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self.addressed = Text(text)
        self.position = 0
        self.found: dict[Route, Place] = {}
        self.counts: dict[Route, int] = {}

    def scan(self) -> dict[Route, Place]:
        table: Route = ()
        self._skip(_GAP)
        while self.position < len(self.text):
            if self.text[self.position] == "[":
                table = self._header()
            else:
                self._pair(table)
            self._skip(_GAP)
        return self.found

    def _skip(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.position)
        assert match is not None
        self.position = match.end()
        return match[0]

    def _mark(self, start: int, end: int) -> Mark:
        return self.addressed.mark(self.file, start, end)

    def _header(self) -> Route:
        """``[a.b]`` or ``[[a.b]]``: the route of the table that begins there."""
        start = self.position
        is_list = self.text.startswith("[[", start)
        self.position += 2 if is_list else 1
        *outer, last = self._key()
        route = self._inner((), outer)
        self.position += 2 if is_list else 1
        route = (*route, last[0])
        mark = self._mark(start, self.position)
        self.found.setdefault(route, Place(last[1], mark))
        if not is_list:
            return route
        number = self.counts.get(route, 0)
        self.counts[route] = number + 1
        self.found[(*route, number)] = Place(last[1], mark)
        return (*route, number)

    def _inner(self, route: Route, parts: list[tuple[str, Mark]]) -> Route:
        """A route that goes on by names; of a list of tables it means the last one."""
        for name, mark in parts:
            route = (*route, name)
            self.found.setdefault(route, Place(mark, mark))
            if route in self.counts:
                route = (*route, self.counts[route] - 1)
        return route

    def _key(self) -> list[tuple[str, Mark]]:
        """The parts of a dotted key."""
        parts: list[tuple[str, Mark]] = []
        while True:
            self._skip(_SPACE)
            start = self.position
            if self.text[start] in "\"'":
                name: str = tomllib.loads(f"k = {self._skip(_STRING)}")["k"]
            else:
                name = self._skip(_BARE)
            parts.append((name, self._mark(start, self.position)))
            self._skip(_SPACE)
            if not self.text.startswith(".", self.position):
                return parts
            self.position += 1

    def _pair(self, table: Route) -> None:
        *outer, (name, key) = self._key()
        self.position += 1  # the `=`
        self._skip(_SPACE)
        route, start = table, self.position
        for part, mark in outer:
            route = (*route, part)
            self.found.setdefault(route, Place(mark, mark))
        self._value((*route, name))
        self.found[(*route, name)] = Place(key, self._mark(start, self.position))

    def _value(self, route: Route) -> None:
        first = self.text[self.position]
        if first in "\"'":
            self._skip(_STRING)
        elif first == "[":
            for number, _ in enumerate(self._members("]")):
                start = self.position
                self._value((*route, number))
                self.found[(*route, number)] = Place(None, self._mark(start, self.position))
        elif first == "{":
            for _ in self._members("}"):
                self._pair(route)
        else:
            start = self.position
            self.position = start + len(self._skip(_SCALAR).rstrip())

    def _members(self, end: str) -> Iterator[None]:
        """Stops at the beginning of each member of a list or an inline table, and after its end."""
        self.position += 1
        while True:
            self._skip(_GAP)
            if self.text[self.position] == end:
                self.position += 1
                return
            yield
            self._skip(_GAP)
            if self.text[self.position] == ",":
                self.position += 1
