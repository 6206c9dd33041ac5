"""Numbers and lists in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_WORDS: Final = {None: "null", True: "true", False: "false"}


def in_yaml(value: object) -> str:
    """A value in a sentence, with the words that YAML has: ``null``, ``true``, ``'text'``."""
    return _WORDS[value] if value is None or isinstance(value, bool) else repr(value)


def is_number(text: str, most: int = 6) -> bool:
    """Whether a text is a whole number, in ASCII digits and at most ``most`` of them."""
    return text.isascii() and text.isdecimal() and len(text) <= most


def is_plain(text: str) -> bool:
    """Whether a text has nothing that only Python takes in a number: other scripts' digits, ``1_0``, blanks."""
    return text.isascii() and "_" not in text and text == text.strip()


def counted(number: int, what: str) -> str:
    """``1 file``, ``2 files``."""
    return f"{number} {plural(number, what)}"


def plural(number: int, what: str) -> str:
    """The noun for so many: ``file``, ``files``."""
    return what if number == 1 else f"{what}s"


def listed(words: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)
