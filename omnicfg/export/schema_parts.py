"""What all JSON Schemas of this project are made of: their dialect, closed objects, values that may be null."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

Schema = dict[str, Any]

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def closed(properties: Mapping[str, Schema]) -> Schema:
    """An object that has none but these properties."""
    return {"type": "object", "additionalProperties": False, "properties": dict(properties)}


def record(properties: Mapping[str, Schema]) -> Schema:
    """An object that has these properties, all of them, and no others."""
    return closed(properties) | {"required": list(properties)}


def nullable(schema: Schema) -> Schema:
    """That, or null, of which no other keyword says anything."""
    return schema | {"type": [schema["type"], "null"]}
