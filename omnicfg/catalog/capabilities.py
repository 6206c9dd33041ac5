"""Capability records: what is known of a model's stages, with the evidence (``profiles/capabilities/*.yaml``)."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omnicfg.catalog.paths import profiles_dir


@dataclass(frozen=True, slots=True)
class Situation:
    """What a stage runs in: the facts that the ``when`` of a record's entry is matched against."""

    engine: str
    pipeline: str
    platform: str
    model_runner: str
    session_mode: str
    async_chunk: bool
    prefix_caching: bool

    def matches(self, when: Mapping[str, Any]) -> bool:
        """Whether every condition holds; an absent one holds always, a list holds for any of its values."""
        for name, wanted in when.items():
            actual = getattr(self, name)
            if actual not in wanted if isinstance(wanted, list) else actual != wanted:
                return False
        return True


@functools.cache
def _paths() -> tuple[Path, ...]:
    return tuple(sorted((profiles_dir() / "capabilities").glob("*.yaml")))


@functools.cache
def _record(path: Path) -> Mapping[str, Any]:
    from omnicfg.passes.read import read_file
    from omnicfg.tree import Layer, LayerKind, plain

    record: Mapping[str, Any] = plain(read_file(path, Layer(LayerKind.PROFILE)))
    return record


@functools.cache
def record_of(pipeline: str) -> Mapping[str, Any] | None:
    """The record of the model that a pipeline runs, or ``None`` where nothing is known of it.

    Only files that mention the pipeline at all are parsed.
    """
    candidates = (path for path in _paths() if pipeline in path.read_text(encoding="utf-8"))
    return next((record for record in map(_record, candidates) if pipeline in record["pipelines"]), None)


@functools.cache
def stage_record(pipeline: str, model_stage: str) -> Mapping[str, Any] | None:
    """What is known of one stage of a pipeline."""
    record = record_of(pipeline)
    stages = record["stages"] if record else ()
    return next((stage for stage in stages if stage["stage"] == model_stage), None)


def entry_for(pipeline: str, model_stage: str, capability: str, situation: Situation) -> Mapping[str, Any] | None:
    """The entry that counts for a capability (``prefix_caching``, …): the first whose ``when`` matches."""
    stage = stage_record(pipeline, model_stage)
    entries = stage.get(capability, ()) if stage else ()
    return next((entry for entry in entries if situation.matches(entry.get("when", {}))), None)


def side_effects(pipeline: str, model_stage: str, situation: Situation) -> Iterator[Mapping[str, Any]]:
    """What else the settings in force change; every matching effect counts."""
    stage = stage_record(pipeline, model_stage)
    for effect in stage.get("side_effects", ()) if stage else ():
        if situation.matches(effect["when"]):
            yield effect
