"""Types of settings → JSON Schema: from the data on vLLM (``vllm_types``) and from annotation texts of vllm-omni."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from typing import Any, Final

from omnicfg.export.schema_parts import Schema
from omnicfg.export.vllm_types import Type, kind, members, union
from omnicfg.value_types import parse_annotation

_ATOMS: Final[dict[str, str]] = {
    "none": "null",
    "bool": "boolean",
    "int": "integer",
    "float": "number",
    "str": "string",
}
_BOUNDS: Final = {
    "gt": "exclusiveMinimum",
    "ge": "minimum",
    "lt": "exclusiveMaximum",
    "le": "maximum",
    "multiple_of": "multipleOf",
    "min_length": "minLength",
    "max_length": "maxLength",
    "pattern": "pattern",
}
_BOUNDED: Final = ("int", "float", "str")
_WORDS: Final = {"boolean": "true or false", "integer": "a whole number", "number": "a number", "null": "null"}
_ANY_MAPPING: Final[Type] = {"dict": ["str", "any"]}
_ANY_LIST: Final[Type] = {"list": "any"}
_VAGUE: Final[tuple[Type, ...]] = ("int", "float", "str", _ANY_MAPPING, _ANY_LIST)
_SHAPES: Final = {"config": "dict", "set": "list", "tuple": "list"}
_BUILT_IN: Final = frozenset({"Any", "Literal", "None", "bool", "dict", "float", "int", "list", "str", "tuple"})
_BRACKETS: Final = re.compile(r"\[.*?\](?=\s*(?:\||$))")
_INTERPOLATION: Final = r"\$\{.*\}"


def annotation_type(text: str, configs: Container[str] = ()) -> Type:
    """The type behind an annotation such as ``dict[str, Any] | None``, in the language of ``vllm_types``.

    ``configs`` are the config classes that are described elsewhere. Any other class may be written in more ways than
    its annotation says, so anything passes.
    """
    text = text.strip("'\"")
    names = [name.strip() for name in _BRACKETS.sub("", text).split("|")]
    if any(name not in _BUILT_IN and name not in configs for name in names):
        return "any"
    value_type = parse_annotation(text)
    shapes: dict[str, Type] = {"mapping": _ANY_MAPPING, "list": _ANY_LIST}
    kinds: list[Type] = [shapes.get(name, name) for name in sorted(value_type.kinds)]
    kinds += [{"config": name} for name in names if name not in _BUILT_IN]
    if value_type.choices:
        kinds = [{"choices": list(value_type.choices)}, *(name for name in kinds if name != "str")]
    return combined(kinds)


def combined(types: Iterable[Type]) -> Type:
    """One type for a setting that several readers take: all that any of them takes, in the most telling form.

    A bounded number stands for the unbounded one beside it, and a config class for a mapping of whatever.
    """
    joined = members(union(types))
    told = {_shape(member) for member in joined if member not in _VAGUE}
    return union(member for member in joined if member not in _VAGUE or _shape(member) not in told)


def _shape(type_: Type) -> str:
    return _SHAPES.get(kind(type_), kind(type_))


def json_schema(type_: Type, *, nullable: bool = True) -> Schema:
    """What YAML may say where a value of the type is wanted: the value, null to unset it, or an interpolation."""
    if type_ == "any":
        return {}
    alternatives = _alternatives(union([type_, "none"]) if nullable else type_)
    atoms = list(dict.fromkeys(alternative["type"] for alternative in alternatives if set(alternative) == {"type"}))
    told = [alternative for alternative in alternatives if set(alternative) != {"type"}]
    if not told:
        return _with_interpolation({"type": atoms})
    if len(told) == 1 and told[0].get("type") in ("integer", "number") and "string" not in atoms:
        return _with_interpolation({**told[0], "type": [told[0]["type"], *atoms]})
    if atoms:
        told.append({"type": _one_or_all(atoms)})
    if "string" not in atoms:
        told.append({"type": "string", "pattern": _INTERPOLATION})
    return {"anyOf": told}


def _with_interpolation(schema: Schema) -> Schema:
    """``${...}`` is text to an editor: allowed beside what takes no text otherwise."""
    types = list(schema["type"])
    if "string" in types:
        return {**schema, "type": _one_or_all(types)}
    wanted = " or ".join(_WORDS[name] for name in types)
    pattern = {"pattern": _INTERPOLATION, "patternErrorMessage": f"Has to be {wanted}, without quotes."}
    return {**schema, "type": [*types, "string"], **pattern}


def _one_or_all(types: list[str]) -> str | list[str]:
    return types[0] if len(types) == 1 else types


def _alternatives(type_: Type) -> list[Schema]:
    return [schema for member in members(type_) for schema in _schemas(member)]


def _schemas(type_: Type) -> list[Schema]:
    """A type that is no union; a choice in any spelling becomes two schemas, so that editors complete the usual one."""
    name = kind(type_)
    if isinstance(type_, str):
        return [{} if name in ("any", "object") else {"type": _ATOMS[name]}]
    content = type_[name]
    if name == "choices":
        any_spelling = type_.get("ignore_case") or type_.get("dashes")
        return [{"enum": content}, {"type": "string"}] if any_spelling else [{"enum": content}]
    if name in _BOUNDED:
        return [{"type": _ATOMS[name]} | {_BOUNDS[bound]: limit for bound, limit in content.items()}]
    if name == "config":
        return [{"$ref": f"#/$defs/{content}"}]
    if name == "dict":
        return [{"type": "object", "additionalProperties": _nested(content[1])}]
    return [_array(type_)]


def _array(type_: dict[str, Any]) -> Schema:
    if "tuple" in type_:
        items = [_nested(item) for item in type_["tuple"]]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
    length = {"minItems": type_["min_length"]} if "min_length" in type_ else {}
    return {"type": "array", "items": _nested(type_.get("list") or type_["set"])} | length


def _nested(type_: Type) -> Schema:
    alternatives = _alternatives(type_)
    return alternatives[0] if len(alternatives) == 1 else {"anyOf": alternatives}
