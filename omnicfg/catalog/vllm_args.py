"""vLLM's engine args by version, as exported from a release (``omnicfg.export.vllm``)."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from omnicfg.catalog.paths import load_json, schemas_dir
from omnicfg.value_types import ValueType, kind_of

DEFAULT_VLLM: Final = "0.32.0"


@functools.cache
def vllm_versions() -> tuple[str, ...]:
    """The versions whose engine args are shipped, oldest first."""
    stems = (path.stem for path in (schemas_dir() / "vllm").glob("[0-9]*.json"))
    return tuple(sorted(stems, key=lambda version: tuple(int(part) for part in version.split("."))))


def engine_args(version: str = DEFAULT_VLLM) -> Mapping[str, Mapping[str, Any]]:
    """Engine args by Python name: flags, type, nullable, default, choices, help, group."""
    args: dict[str, Mapping[str, Any]] = load_json(f"schemas/vllm/{version}.json")["args"]
    return args


def resolved_defaults(version: str = DEFAULT_VLLM) -> Mapping[str, Mapping[str, Any]]:
    """Args that vLLM fills in at start when they are unset: value (null: depends on the machine), when, source."""
    resolved: dict[str, Mapping[str, Any]] = load_json(f"schemas/vllm/{version}.json")["resolved"]
    return resolved


@functools.cache
def known_variables() -> frozenset[str]:
    """The environment variables of its own that some shipped release of vLLM knows; it warns of others named so."""
    releases = (load_json(f"schemas/vllm/{version}.json")["variables"] for version in vllm_versions())
    return frozenset(name for names in releases for name in names if name.startswith("VLLM_"))


@functools.cache
def known_engine_args(version: str = DEFAULT_VLLM) -> frozenset[str]:
    """The names of all engine args of a version."""
    return frozenset(engine_args(version))


@functools.cache
def arg_types(version: str = DEFAULT_VLLM) -> Mapping[str, ValueType]:
    """The kinds of value that each engine arg takes."""
    return {name: value_type(arg["type"]) for name, arg in engine_args(version).items()}


Bounds = tuple[tuple[str, float], ...]
"""``(("gt", 0), ("le", 1))``: above 0 and at most 1."""


class ConfigClass(NamedTuple):
    """A nested config of vLLM, such as ``CompilationConfig``: its fields, and whether it takes others too."""

    is_open: bool
    types: Mapping[str, ValueType]
    nested: Mapping[str, str]
    deprecated: frozenset[str]
    bounds: Mapping[str, Bounds]


@functools.cache
def config_class(name: str, version: str = DEFAULT_VLLM) -> ConfigClass:
    """A config class by name; ``nested`` says which of its fields are configs themselves."""
    config = load_json(f"schemas/vllm/{version}.json")["configs"][name]
    fields = config["fields"]
    types = {field: value_type(entry["type"]) for field, entry in fields.items()}
    nested = {field: inner for field, entry in fields.items() if (inner := _config_in(entry["type"])) is not None}
    return ConfigClass(config["open"], types, nested, _deprecated(fields), _bounds(fields))


def config_classes(version: str = DEFAULT_VLLM) -> frozenset[str]:
    """The names of all config classes of a version."""
    return frozenset(load_json(f"schemas/vllm/{version}.json")["configs"])


@functools.cache
def all_args(version: str = DEFAULT_VLLM) -> ConfigClass:
    """The engine args of a version as if they were fields of one config."""
    args = engine_args(version)
    return ConfigClass(True, arg_types(version), config_args(version), _deprecated(args), _bounds(args))


def _bounds(entries: Mapping[str, Mapping[str, Any]]) -> dict[str, Bounds]:
    found = {}
    for name, entry in entries.items():
        type_ = entry["type"]
        members = type_["any_of"] if isinstance(type_, dict) and "any_of" in type_ else [type_]
        bounded = [member for member in members if isinstance(member, dict) and ("int" in member or "float" in member)]
        if len(bounded) == 1:
            found[name] = tuple(next(iter(bounded[0].values())).items())
    return found


def _deprecated(entries: Mapping[str, Mapping[str, Any]]) -> frozenset[str]:
    return frozenset(name for name, entry in entries.items() if entry.get("deprecated"))


@functools.cache
def config_args(version: str = DEFAULT_VLLM) -> Mapping[str, str]:
    """The engine args whose value is a nested config → the name of its class."""
    args = engine_args(version).items()
    return {name: config for name, arg in args if (config := _config_in(arg["type"])) is not None}


def _config_in(type_: Any) -> str | None:
    """The only config class that a mapping of this type can be; ``None`` where a mapping may be something else."""
    members = type_["any_of"] if isinstance(type_, dict) and "any_of" in type_ else [type_]
    mappings = [member for member in members if isinstance(member, dict) and ("config" in member or "dict" in member)]
    return mappings[0].get("config") if len(mappings) == 1 else None


def value_type(type_: Any) -> ValueType:
    """A type of the exporter's language (see :mod:`omnicfg.export.vllm_types`) as kinds and closed choices."""
    members = type_["any_of"] if isinstance(type_, dict) and "any_of" in type_ else [type_]
    kinds: set[str] = set()
    choices: list[str] = []
    spellings: set[str] = set()
    for member in members:
        if isinstance(member, dict) and "choices" in member:
            kinds |= {kind_of(choice) for choice in member["choices"]}
            choices += [choice for choice in member["choices"] if isinstance(choice, str)]
            spellings |= set(member) - {"choices"}
        else:
            kinds.add(_KINDS[member if isinstance(member, str) else next(key for key in member if key in _KINDS)])
    inner = [
        _items(member) for member in members if isinstance(member, dict) and not member.keys().isdisjoint(_HOLDERS)
    ]
    items = inner[0] if len(inner) == 1 else None
    if "str" in members or any(isinstance(member, dict) and "str" in member for member in members):
        return ValueType(frozenset(kinds), words=tuple(choices), items=items)
    return ValueType(frozenset(kinds), tuple(choices), frozenset(spellings), items=items)


_HOLDERS: Final = ("list", "dict", "set", "tuple", "config")


def _items(member: Mapping[str, Any]) -> ValueType | None:
    if "list" in member:
        return value_type(member["list"])
    return value_type(member["dict"][1]) if "dict" in member else None


_KINDS: Final = {
    "bool": "bool",
    "int": "int",
    "float": "float",
    "str": "str",
    "none": "none",
    "any": "any",
    "object": "any",
    "list": "list",
    "set": "list",
    "tuple": "list",
    "dict": "mapping",
    "config": "mapping",
}
