"""What a text renderer has to know of where its text goes: colour, width, and what a character takes there."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable
from typing import Final, Protocol

from omnicfg.secrets import without_passwords

TAB: Final = 4
_NARROWEST: Final = 40


class Stream(Protocol):
    def isatty(self) -> bool: ...
    def fileno(self) -> int: ...


class Style:
    """ANSI styles by what they mean; with ``colour`` off, text is left as it is."""

    _CODES: Final = {
        "error": "1;31",
        "warning": "1;33",
        "note": "1;36",
        "place": "34",
        "strong": "1",
        "faint": "2",
        "struck": "9;2",
        "good": "32",
        "bad": "31",
        "name": "36",
    }

    def __init__(self, colour: bool) -> None:
        self.colour = colour

    def __call__(self, style: str, text: str) -> str:
        return f"\x1b[{self._CODES[style]}m{text}\x1b[0m" if self.colour and text else text


def has_colour(stream: Stream) -> bool:
    """Colour is for terminals that can show it, unless NO_COLOR (https://no-color.org/) says no."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def width_of(stream: Stream) -> int | None:
    """The columns of the terminal; ``None`` where the text goes elsewhere and lines may be as long as they are.

    ``COLUMNS`` goes before what the terminal says of itself (POSIX, "Environment Variables").
    """
    if not stream.isatty():
        return None
    columns = _columns_asked()
    try:
        columns = columns or os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        columns = 0
    return max(columns, _NARROWEST) if columns else 80


def _columns_asked() -> int:
    asked = os.environ.get("COLUMNS", "")
    return int(asked) if asked.isascii() and asked.isdecimal() and len(asked) <= len("99999") else 0


def printable(text: str) -> str:
    """``text`` with everything that a terminal would act on, or that hides other text, written as an escape."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown(character) for character in text)


def one_line(text: str) -> str:
    """A text with its line breaks as escapes: what a file quotes must not look like a line of the report."""
    return printable(without_passwords(text)).replace("\n", "\\n")


def _shown(character: str) -> str:
    if character == "\n" or character.isprintable() or unicodedata.category(character) in ("Mn", "Me", "Zs"):
        return character
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")


def cells(text: str) -> int:
    """How many columns a printable text takes: wide characters two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(_cells(character) for character in text)


def _cells(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def pad(text: str, width: int) -> str:
    return text + " " * (width - cells(text))


def wrap(text: str, width: int | None) -> list[str]:
    """``text`` in lines of at most ``width`` columns, broken at spaces, and inside a word only where one is longer."""
    lines: list[str] = []
    for paragraph in text.split("\n"):
        lines += [paragraph] if width is None or cells(paragraph) <= width else _wrapped(paragraph.split(" "), width)
    return lines


def paragraph(text: str, width: int | None, style: Style | None = None, look: str = "") -> str:
    """``text``, which may hold anything, as lines of at most ``width`` columns, each in a style of its own.

    Its own line breaks are shown as escapes: the name of a file could be two lines, and look like another one's.
    """
    lines = wrap(one_line(text), width)
    return "".join(f"{style(look, line) if style and look else line}\n" for line in lines)


def _wrapped(words: Iterable[str], width: int) -> list[str]:
    lines, line = [], ""
    for word in words:
        joined = f"{line} {word}" if line else word
        if cells(joined) <= width:
            line = joined
            continue
        if line:
            lines.append(line)
        *full, line = _pieces(word, width)
        lines += full
    return [*lines, line]


def _pieces(word: str, width: int) -> list[str]:
    pieces, piece, taken = [], "", 0
    for character in word:
        size = _cells(character)
        if taken + size > width and piece:
            pieces.append(piece)
            piece, taken = "", 0
        piece, taken = piece + character, taken + size
    return [*pieces, piece]
