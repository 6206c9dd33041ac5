"""Whether a document of ``omnicfg bench`` has the form that its schema says: files are edited, cut off and copied.

``schemas/bench.schema.json`` says it, limits included, and ``jsonschema`` holds documents against it. What a schema
does not name is left alone: a later release may write it.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from jsonschema import Draft202012Validator, TypeChecker, ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import extend

from omnicfg.catalog.paths import load_json
from omnicfg.errors import UsageError

_DEEPEST: Final = 32
_WHOLE: Final = "It was cut off or edited: bring the whole file, or measure again."
_WORDS: Final[Mapping[str, str]] = {
    "object": "a mapping",
    "array": "a list",
    "string": "a text",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "null": "null",
}


def read_json(path: Path, content: bytes, help: str = _WHOLE) -> Any:
    """What a file holds. Raises :class:`UsageError` with the place at which it is no JSON, and ``help``."""
    try:
        return json.loads(content)
    except json.JSONDecodeError as error:
        raise UsageError(f"`{path}:{error.lineno}:{error.colno}` is no JSON: {error.msg}", help) from None
    except UnicodeDecodeError:
        raise UsageError(f"`{path}` is no JSON: it is no text in UTF-8", help) from None
    except ValueError as error:  # a number of too many digits
        raise UsageError(f"`{path}` is no JSON: {error}", help) from None
    except RecursionError:
        raise UsageError(f"`{path}` is nested too deeply", help) from None


def problem(document: Any, *route: str) -> str | None:
    """What is wrong with a report, or with the part of one that the schema has at ``route``: of all, the outermost."""
    if not _is_flat(document):
        return "it is nested too deeply"
    errors = (error for error in _validator(*route).iter_errors(document) if error.validator != "additionalProperties")
    outermost = min(errors, key=lambda error: (len(error.path), error.path), default=None)
    return None if outermost is None else _told(outermost)


def _is_flat(document: Any) -> bool:
    """Whether nothing lies deeper than a document of ours has any use for, in what the schema does not name either."""
    level = [document]
    for _ in range(_DEEPEST):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
    return not level


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
