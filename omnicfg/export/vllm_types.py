"""The type language of ``schemas/vllm/*.json``: what a value of an engine arg may be, checkable without vLLM.

A type is JSON. An atom is a string; everything else is an object whose one main key names its kind::

    "bool"                          a boolean, never the string "false" nor 0
    "int"                           a whole number, never a boolean nor "8"
    "float"                         a number, whole or not
    "str"                           a string; paths and names of Python classes too
    "none"                          null
    "any"                           whatever YAML can say
    "object"                        a Python object: nothing that YAML can say
    {"int": {"ge": 1}}              a bounded number: gt, ge, lt, le, multiple_of; {"float": {...}} likewise
    {"str": {"min_length": 1}}      a bounded string: min_length, max_length, pattern (searched, not anchored)
    {"choices": ["a", "b"]}         one of these scalars; with "ignore_case": true in any case, with "dashes": true with
                                    "-" for "_" as well
    {"list": T}                     a list whose elements are all T; with "min_length" where vLLM asks for it
    {"set": T}                      the same, written as a list; order and repetition mean nothing
    {"tuple": [T, U]}               a list of that length, element by element
    {"dict": [K, V]}                a mapping
    {"config": "CompilationConfig"} a mapping whose keys are fields of ``configs["CompilationConfig"]``; a config with
                                    "open": true takes other keys too
    {"any_of": [T, U]}              one of several; never nested, never with "any" or "object" in it

``{"any_of": [{"choices": [...]}, "str"]}`` is an open choice: these are the known names, a plugin may bring more.
A type says what a value written in YAML may be so that vLLM takes it and means the same. vLLM itself is laxer: pydantic
turns "8" into 8, and "false" or 0 into false where a config class is asked; before that, ``EngineArgs`` has used the
string, and a string is true. What the command line takes beyond this (``25.6k``) is the arg's ``cli``, not its type.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import repeat
from typing import Any, TypeAlias

Type: TypeAlias = str | dict[str, Any]
Configs: TypeAlias = Mapping[str, Mapping[str, Any]]

_ATOMS: dict[str, Callable[[Any], bool]] = {
    "any": lambda _value: True,
    "object": lambda _value: False,
    "none": lambda value: value is None,
    "bool": lambda value: isinstance(value, bool),
    "int": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "float": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "str": lambda value: isinstance(value, str),
}
_BOUNDS: dict[str, Callable[[Any, Any], bool]] = {
    "gt": lambda value, bound: bool(value > bound),
    "ge": lambda value, bound: bool(value >= bound),
    "lt": lambda value, bound: bool(value < bound),
    "le": lambda value, bound: bool(value <= bound),
    "multiple_of": lambda value, bound: value % bound == 0,
    "min_length": lambda value, bound: len(value) >= bound,
    "max_length": lambda value, bound: len(value) <= bound,
    "pattern": lambda value, bound: re.search(bound, value) is not None,
}
_MODIFIERS = {"choices": {"ignore_case", "dashes"}, "list": {"min_length"}, "set": {"min_length"}}
KINDS = ("int", "float", "str", "choices", "list", "set", "tuple", "dict", "config", "any_of")


def kind(type_: Type) -> str:
    """The atom, or the main key of an object type.

    Raises:
        ValueError: for what is no type of this language.
    """
    if isinstance(type_, str):
        if type_ in _ATOMS:
            return type_
    elif isinstance(type_, dict):
        named = [key for key in type_ if key in KINDS]
        if len(named) == 1 and set(type_) - set(named) <= _MODIFIERS.get(named[0], set()):
            return named[0]
    raise ValueError(f"not a type: {type_!r}")


def members(type_: Type) -> list[Type]:
    """The alternatives of a type: itself, unless it is ``any_of``."""
    return list(type_["any_of"]) if isinstance(type_, dict) and "any_of" in type_ else [type_]


def union(types: Iterable[Type]) -> Type:
    """One type for several, in the order in which it is read aloud: choices before any string, null last.

    What no YAML value can be is left out, unless it is all there is; choices spelt alike become one.
    """
    flat: list[Type] = []
    for type_ in types:
        for member in members(type_):
            twin = next((known for known in flat if _can_join(known, member)), None)
            if twin is not None and isinstance(twin, dict) and isinstance(member, dict):
                joined = [*twin["choices"], *(item for item in member["choices"] if item not in twin["choices"])]
                flat[flat.index(twin)] = twin | {"choices": joined}
            elif member not in flat:
                flat.append(member)
    if "any" in flat:
        return "any"
    sayable = sorted((member for member in flat if member != "object"), key=_reading_order)
    if not sayable:
        return "object"
    return sayable[0] if len(sayable) == 1 else {"any_of": sayable}


def _can_join(first: Type, second: Type) -> bool:
    return (
        isinstance(first, dict)
        and isinstance(second, dict)
        and "choices" in first
        and "choices" in second
        and {key: value for key, value in first.items() if key != "choices"}
        == {key: value for key, value in second.items() if key != "choices"}
    )


def _reading_order(type_: Type) -> int:
    if isinstance(type_, dict):
        return 0 if "choices" in type_ else 1
    return {"str": 2, "none": 3}.get(type_, 1)


def is_nullable(type_: Type) -> bool:
    """Whether null is a value of the type."""
    return any(member in ("none", "any") for member in members(type_))


def closed_choices(type_: Type) -> list[Any] | None:
    """The values of a type that is a closed choice (or null); None for every other type."""
    written = [member for member in members(type_) if member != "none"]
    if len(written) == 1 and isinstance(written[0], dict) and "choices" in written[0]:
        return list(written[0]["choices"])
    return None


def accepts(type_: Type, value: Any, configs: Configs) -> bool:
    """Whether ``value``, as JSON, is a value of the type.

    Raises:
        ValueError: for what is no type of this language.
        KeyError: for a config class that ``configs`` lacks.
    """
    name = kind(type_)
    if isinstance(type_, str):
        return _ATOMS[name](value)
    content = type_[name]
    if name == "any_of":
        return any(accepts(member, value, configs) for member in content)
    if name == "choices":
        return _is_choice(type_, value)
    if name in _ATOMS:
        return _ATOMS[name](value) and _within(content, value)
    return isinstance(value, dict if name in ("dict", "config") else list) and _holds(type_, name, value, configs)


def _holds(type_: dict[str, Any], name: str, value: Any, configs: Configs) -> bool:
    """Whether a list or mapping, as the type asks for, has the right content."""
    content = type_[name]
    match name:
        case "tuple":
            return len(value) == len(content) and all(map(accepts, content, value, repeat(configs)))
        case "dict":
            return _all(content[0], value, configs) and _all(content[1], value.values(), configs)
        case "config":
            return _is_config(configs[content], value, configs)
        case _:
            bounds = {key: bound for key, bound in type_.items() if key in _BOUNDS}
            return _within(bounds, value) and _all(content, value, configs)


def _within(bounds: Mapping[str, Any], value: Any) -> bool:
    return all(_BOUNDS[name](value, bound) for name, bound in bounds.items())


def _all(type_: Type, values: Iterable[Any], configs: Configs) -> bool:
    return all(accepts(type_, value, configs) for value in values)


def _is_choice(type_: dict[str, Any], value: Any) -> bool:
    if not isinstance(value, str):
        return any(choice == value and type(choice) is type(value) for choice in type_["choices"])
    return _plain(type_, value) in {_plain(type_, choice) for choice in type_["choices"] if isinstance(choice, str)}


def _plain(type_: dict[str, Any], text: str) -> str:
    text = text.lower() if type_.get("ignore_case") else text
    return text.replace("-", "_") if type_.get("dashes") else text


def _is_config(config: Mapping[str, Any], value: Mapping[str, Any], configs: Configs) -> bool:
    fields = config["fields"]
    if any(field.get("required") and name not in value for name, field in fields.items()):
        return False
    return all(
        accepts(fields[name]["type"], item, configs) if name in fields else config["open"]
        for name, item in value.items()
    )
