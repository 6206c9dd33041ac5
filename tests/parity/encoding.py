"""Resolved values as JSON that keeps their types apart, so that equal text means equal values.

``1``, ``1.0`` and ``true`` are different texts; what JSON cannot write (an infinite float, a key that is no string,
bytes) is written as a mapping with one key that starts with ``$``.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from typing import Any


def encode(value: Any) -> Any:
    """``value`` as JSON; tuples as lists."""
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": str(value)}
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode("ascii")}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [encode(item) for item in value]
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {key: encode(item) for key, item in value.items()}
        return {"$items": sorted(([encode(key), encode(item)] for key, item in value.items()), key=canonical)}
    raise TypeError(f"not a resolved value: {value!r} of type {type(value).__qualname__}")


def canonical(encoded: Any) -> str:
    """One text for one encoded value; the order of keys has no meaning."""
    return json.dumps(encoded, sort_keys=True, ensure_ascii=False, allow_nan=False)
