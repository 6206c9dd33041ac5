"""Numbers and lists in sentences."""

from __future__ import annotations

from collections.abc import Sequence


def counted(number: int, what: str) -> str:
    """``1 file``, ``2 files``."""
    return f"{number} {plural(number, what)}"


def plural(number: int, what: str) -> str:
    """The noun for so many: ``file``, ``files``."""
    return what if number == 1 else f"{what}s"


def listed(words: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)
