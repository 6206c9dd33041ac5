"""Where the keys of a flag's JSON stand in its text; Python's reader gives values without places."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from omnicfg.tree import Route

_BLANKS: Final = re.compile(r"[ \t\n\r]*")
_DECODER: Final = json.JSONDecoder()


class Key(NamedTuple):
    """A key: its route, from where to where it stands without its quotes, and whether its object has had it before."""

    route: Route
    start: int
    end: int
    is_repeated: bool


def keys_of(text: str) -> Iterator[Key]:
    """Every key of JSON that can be read, in the order of the text."""
    yield from _Reader(text).value((), 0)


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.end = 0
        """Where the value that was read last ends."""

    def value(self, route: Route, at: int) -> Iterator[Key]:
        at = self._past_blanks(at)
        if self.text[at] == "{":
            yield from self._object(route, at)
        elif self.text[at] == "[":
            yield from self._array(route, at)
        else:
            self.end = _DECODER.raw_decode(self.text, at)[1]

    def _object(self, route: Route, at: int) -> Iterator[Key]:
        at = self._past_blanks(at + 1)
        names: set[str] = set()
        while self.text[at] != "}":
            name, end = _DECODER.raw_decode(self.text, at)
            yield Key((*route, name), at + 1, end - 1, name in names)
            names.add(name)
            yield from self.value((*route, name), self._past_blanks(end) + 1)
            at = self._past_comma(self.end)
        self.end = at + 1

    def _array(self, route: Route, at: int) -> Iterator[Key]:
        number, at = 0, self._past_blanks(at + 1)
        while self.text[at] != "]":
            yield from self.value((*route, number), at)
            number, at = number + 1, self._past_comma(self.end)
        self.end = at + 1

    def _past_comma(self, at: int) -> int:
        at = self._past_blanks(at)
        return self._past_blanks(at + 1) if self.text[at] == "," else at

    def _past_blanks(self, at: int) -> int:
        match = _BLANKS.match(self.text, at)
        assert match is not None, "it matches nothing, too"
        return match.end()
