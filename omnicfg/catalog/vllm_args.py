"""vLLM's engine args by version, as exported from a release (``omnicfg.export.vllm``)."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Final

from omnicfg.catalog.paths import load_json, schemas_dir
from omnicfg.value_types import ValueType

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
def known_engine_args(version: str = DEFAULT_VLLM) -> frozenset[str]:
    """The names of all engine args of a version."""
    return frozenset(engine_args(version))


@functools.cache
def arg_types(version: str = DEFAULT_VLLM) -> Mapping[str, ValueType]:
    """The kinds of value that each engine arg takes."""
    return {}
