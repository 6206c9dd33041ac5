"""Sizes of memory as people write and read them."""

from __future__ import annotations

import re
from typing import Final

from omnicfg.errors import UsageError

_POWERS: Final = {"k": 1, "m": 2, "g": 3, "t": 4}
_SIZE: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?) ?(?:([kmgt])(i?)b)", re.IGNORECASE)


def parse_size(text: str, option: str) -> int:
    """Bytes of ``141GB``, ``139.8GiB``, ``143771 MiB``.

    Raises :class:`~omnicfg.errors.UsageError`, naming ``option``.
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None or not float(found[1]):
        raise UsageError(f"`{option}` cannot be `{text}`", "It is a number with a unit, such as 139.8GiB or 80GB.")
    number, unit, binary = found.groups()
    return int(float(number) * (1024 if binary else 1000) ** _POWERS[unit.lower()])


def gib(size: int) -> str:
    """Bytes as people read them: ``56.9 GiB``."""
    return f"{size / 2**30:,.1f} GiB"
