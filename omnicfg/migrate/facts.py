"""What became of the keys of the ``stage_args`` schema (``schemas/vllm-omni/stage_args.json``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omnicfg.catalog.paths import load_json


def facts() -> Mapping[str, Any]:
    """The whole record: fates of keys, former names, and what an old file left unsaid."""
    known: Mapping[str, Any] = load_json("schemas/vllm-omni/stage_args.json")
    return known


def former_names(kind: str, name: object) -> set[str]:
    """What a ``model_arch`` or ``model_stage`` of an old file may be called today, its old name included."""
    if not isinstance(name, str):
        return set()
    today = facts()["former_names"][kind].get(name, [])
    return {name, *([today] if isinstance(today, str) else today)}
