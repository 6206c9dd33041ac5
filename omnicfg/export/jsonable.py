"""Python values as JSON: tuples as lists, enums by value, sets sorted, types by dotted name."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any


def jsonable(value: Any) -> Any:
    """``value`` as JSON.

    Raises:
        TypeError: for a value that has no faithful JSON form; the exporter must then learn about it.
    """
    if isinstance(value, enum.Enum):
        return jsonable(value.value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((jsonable(item) for item in value), key=str)
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    raise TypeError(f"no JSON form for {value!r} of type {type(value).__qualname__}")
