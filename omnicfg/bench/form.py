"""Whether a document of ``omnicfg bench`` has the form that its schema says: files are edited, cut off and copied.

As much of JSON Schema as ``schemas/bench.schema.json`` uses. What a schema does not name is left alone: a later release
may write it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from omnicfg.catalog.paths import load_json

Schema = Mapping[str, Any]

_TYPES: Final[Mapping[str, tuple[tuple[type, ...], str]]] = {
    "object": ((dict,), "a mapping"),
    "array": ((list,), "a list"),
    "string": ((str,), "a text"),
    "boolean": ((bool,), "true or false"),
    "integer": ((int,), "a whole number"),
    "number": ((int, float), "a number"),
    "null": ((type(None),), "null"),
}
_LARGEST: Final = 1e18
"""No count and no time is larger, and what is computed with it stays a number."""


def problem(document: Any, *route: str) -> str | None:
    """The first thing that is wrong with a report, or with the part of one that the schema has at ``route``."""
    schema = _report_schema()
    for step in route:
        schema = schema[step]
    return next(_problems(document, schema, ""), None)


@functools.cache
def _report_schema() -> Schema:
    schema: Schema = load_json("schemas/bench.schema.json")
    return schema


def _problems(value: Any, schema: Schema, place: str) -> Iterator[str]:
    told = f"`{place}`" if place else "it"
    if "anyOf" in schema:
        found = [next(_problems(value, one, place), None) for one in schema["anyOf"]]
        if None not in found:
            yield str(found[0])
    elif "const" in schema or "enum" in schema:
        known = schema.get("enum", [schema.get("const")])
        if value not in known:
            yield f"{told} has to be {' or '.join(map(str, known))}"
    elif not any(_is(value, name) for name in _names(schema)):
        yield f"{told} has to be {' or '.join(_TYPES[name][1] for name in _names(schema))}"
    elif isinstance(value, dict):
        yield from _in_mapping(value, schema, place)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _problems(item, schema["items"], f"{place}[{number}]")
    elif isinstance(value, int | float) and not isinstance(value, bool) and not _is_in_range(value, schema):
        yield f"{told} is out of range"


def _is_in_range(value: float, schema: Schema) -> bool:
    least, beyond = float(schema.get("minimum", -_LARGEST)), float(schema.get("exclusiveMaximum", _LARGEST))
    return least <= value < beyond


def _in_mapping(value: Mapping[str, Any], schema: Schema, place: str) -> Iterator[str]:
    missing = [name for name in schema.get("required", ()) if name not in value]
    if missing:
        yield f"{f'`{place}`' if place else 'it'} has no {', '.join(missing)}"
    named, others = schema.get("properties", {}), schema.get("additionalProperties")
    for name, child in value.items():
        inner = named.get(name, others)
        if isinstance(inner, Mapping):
            yield from _problems(child, inner, f"{place}.{name}" if place else name)


def _names(schema: Schema) -> list[str]:
    names = schema["type"]
    return [names] if isinstance(names, str) else list(names)


def _is(value: Any, name: str) -> bool:
    if isinstance(value, bool) and name != "boolean":
        return False
    return isinstance(value, _TYPES[name][0]) and not (isinstance(value, float) and not math.isfinite(value))
