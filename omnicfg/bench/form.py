"""Whether a document of ``omnicfg bench`` has the form that its schema says: files are edited, cut off and copied.

``schemas/bench.schema.json`` says it, limits included, and ``jsonschema`` holds documents against it. What a schema
does not name is left alone: a later release may write it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any, Final

from jsonschema import Draft202012Validator, TypeChecker, ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import extend

from omnicfg.catalog.paths import load_json

_WORDS: Final[Mapping[str, str]] = {
    "object": "a mapping",
    "array": "a list",
    "string": "a text",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "null": "null",
}


def problem(document: Any, *route: str) -> str | None:
    """What is wrong with a report, or with the part of one that the schema has at ``route``: of all, the outermost."""
    errors = (error for error in _validator(*route).iter_errors(document) if error.validator != "additionalProperties")
    try:
        outermost = min(errors, key=lambda error: (len(error.path), error.path), default=None)
    except RecursionError:  # an error of the library shows the whole value
        return "it is nested too deeply"
    return None if outermost is None else _told(outermost)


@functools.cache
def _validator(*route: str) -> Validator:
    schema: Mapping[str, Any] = load_json("schemas/bench.schema.json")
    for step in route:
        schema = schema[step]
    return _FORM(schema)


def _is_whole(_: TypeChecker, value: Any) -> bool:
    """No 8.0, which is whole for JSON Schema: what is counted with has to be one for Python."""
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(types: TypeChecker, value: Any) -> bool:
    """No NaN and no infinity, which Python's JSON has and JSON Schema knows nothing of."""
    return _is_whole(types, value) or (isinstance(value, float) and math.isfinite(value))


_TYPES: Final = Draft202012Validator.TYPE_CHECKER.redefine_many({"integer": _is_whole, "number": _is_number})
_FORM: Final[type[Validator]] = extend(Draft202012Validator, type_checker=_TYPES)  # type: ignore[no-untyped-call]


def _told(error: ValidationError) -> str:
    route = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.path).removeprefix(".")
    place = f"`{route}`" if route else "it"
    asked: Any = error.validator_value
    value: Any = error.instance
    match error.validator:
        case "required":
            return f"{place} has no {', '.join(name for name in asked if name not in value)}"
        case "type":
            names = [asked] if isinstance(asked, str) else asked
            return f"{place} has to be {' or '.join(_WORDS[name] for name in names)}"
        case "const" | "enum" as keyword:
            known = asked if keyword == "enum" else [asked]
            return f"{place} has to be {' or '.join(map(str, known))}"
        case _:
            return f"{place} is out of range"
