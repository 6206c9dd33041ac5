"""Pass 2: which pipeline an old file started, told by its stages, architectures and processors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from omnicfg.catalog.upstream import VLLM_OMNI, own_pipelines, pipelines
from omnicfg.migrate.facts import facts, former_names
from omnicfg.migrate.old_file import OldFile, OldStage
from omnicfg.passes.pipeline import known_pipeline
from omnicfg.refusals import refuse
from omnicfg.tree import Mark

Topology = Mapping[str, Any]


class Recognised(NamedTuple):
    """The pipeline, the stage of it that each old stage became (by position), and what told."""

    pipeline: str
    stages: Mapping[int, Topology]
    why: str


class _Fit(NamedTuple):
    """How well a pipeline fits, best compared as a tuple: every part counts more than all that follow."""

    evidence: int
    stages: int
    missing: int
    agreeing: int


def recognise(old: OldFile, asked: str | None = None) -> Recognised:
    """The pipeline of an old file. Refuses a file that no pipeline, or more than one, fits."""
    if asked is not None:
        key = known_pipeline(asked, Mark("--pipeline"))
        return Recognised(key, match_stages(old.stages, key), "asked for")
    named = old.document.value("model_type")
    if isinstance(named, str) and named in pipelines():
        return Recognised(named, match_stages(old.stages, named), "`model_type` names it")
    upstream = [key for key in pipelines() if key not in own_pipelines()]
    fits = {key: fit for key in upstream if (fit := _fit(old.stages, key)) is not None}
    told = {key: fit for key, fit in fits.items() if fit.evidence}
    if told:
        best = max(told.values())
        keys = [key for key, fit in told.items() if fit == best]
        why = "told by its architectures, stages and processors"
    else:
        keys, why = list(fits), "told by its stages and the file's name"
    if len(keys) > 1 or not told:
        keys = _by_name(old.path, keys) or (keys if told else [])
    if len(keys) == 1:
        return Recognised(keys[0], match_stages(old.stages, keys[0]), why)
    _refuse(old, keys or sorted(fits, key=fits.__getitem__, reverse=True))


def match_stages(stages: list[OldStage], key: str) -> dict[int, Topology]:
    """Old position → stage of the pipeline, by name; of two halves of a split stage, the one that decodes."""
    free = list(pipelines()[key]["stages"])
    matched: dict[int, Topology] = {}
    for stage in _whole_stages(stages):
        fitting = [topology for topology in free if _is_called(stage, topology)]
        same_id = [topology for topology in fitting if topology["stage_id"] == stage.stage_id]
        if fitting:
            matched[stage.position] = (same_id or fitting)[0]
            free.remove(matched[stage.position])
    return matched


def _whole_stages(stages: list[OldStage]) -> list[OldStage]:
    """The stages without those that only prefill for another one of their name."""
    names = [stage.name for stage in stages if not stage.value("is_prefill_only")]
    return [stage for stage in stages if not (stage.value("is_prefill_only") and stage.name in names)]


def _is_called(stage: OldStage, topology: Topology) -> bool:
    name = stage.value("engine_args", "model_stage") or stage.value("model_stage")
    if name is None:
        return bool(topology["stage_id"] == stage.stage_id)
    return topology["model_stage"] in former_names("model_stage", name)


def _fit(stages: list[OldStage], key: str) -> _Fit | None:
    """``None`` where a stage of the file has no counterpart, or no architecture that is named is the pipeline's."""
    pipeline = pipelines()[key]
    matched = match_stages(stages, key)
    wanted = _whole_stages(stages)
    if len(matched) < len(wanted) or not matched:
        return None
    named = [stage for stage in wanted if architecture(stage) is not None]
    hits = sum(_has_architecture(stage, matched[stage.position], pipeline) for stage in named)
    if named and not hits:
        return None
    processors = sum(len(processor_modules(stage) & _modules(matched[stage.position])) for stage in wanted)
    agreeing = sum(_agrees(stage, matched[stage.position]) for stage in wanted)
    missing = len(pipeline["stages"]) - len(matched)
    return _Fit(hits + processors, len(matched), -missing, agreeing)


def architecture(stage: OldStage) -> str | None:
    """The model class that an old stage names."""
    for key in ("model_class_name", "model_arch"):
        value = stage.value("engine_args", key)
        if isinstance(value, str):
            return value
    return None


def effective_architecture(topology: Topology, pipeline: Mapping[str, Any]) -> str | None:
    """The model class of a stage today."""
    found = topology["model_arch"] or pipeline["model_arch"]
    return str(found) if found else None


def _has_architecture(stage: OldStage, topology: Topology, pipeline: Mapping[str, Any]) -> bool:
    return effective_architecture(topology, pipeline) in former_names("model_arch", architecture(stage))


def processor_modules(stage: OldStage) -> set[str]:
    """The upstream modules that the processors of an old stage lie in."""
    paths = (
        stage.value("custom_process_input_func"),
        stage.value("engine_args", "custom_process_next_stage_input_func"),
        stage.value("prompt_expand_func"),
    )
    return {module for path in paths if (module := processor_module(path)) is not None}


def processor_module(path: object) -> str | None:
    """The module of upstream's processors that a dotted path names; ``None`` for a function from elsewhere."""
    package = facts()["processor_package"]
    if not isinstance(path, str) or not path.startswith(package):
        return None
    return path.rpartition(".")[0]


def _modules(topology: Topology) -> set[str]:
    return {module for value in topology.values() if (module := processor_module(value)) is not None}


def _agrees(stage: OldStage, topology: Topology) -> int:
    """How many of the fields that tell variants of a pipeline apart are as the file has them."""
    fields = (
        (stage.value("final_output"), topology["final_output"]),
        (stage.value("final_output_type"), topology["final_output_type"]),
        (stage.value("engine_args", "engine_output_type"), topology["engine_output_type"]),
        (stage.value("engine_args", "omni_kv_config"), topology["omni_kv_config"]),
    )
    return sum(old is not None and old == new for old, new in fields)


def _by_name(path: Path, keys: list[str]) -> list[str]:
    """The keys that share most words with the file's name, if they share more than one."""
    words = set(re.split(r"[^a-z0-9]+", path.stem.lower()))
    shared = {key: len(set(re.split(r"[^a-z0-9]+", key.lower())) & words) for key in keys}
    most = max(shared.values(), default=0)
    return [key for key in keys if shared[key] == most] if most > 1 else []


def _refuse(old: OldFile, candidates: list[str]) -> NoReturn:
    parts = [f"{stage.name} ({architecture(stage) or 'no model class'})" for stage in old.stages]
    stages = ", ".join(parts)
    place = old.stages[0].mark
    if candidates:
        near = ", ".join(candidates[:8])
        refuse(
            "no-pipeline",
            place,
            f"several pipelines have stages like these: {stages}",
            f"Pass `--pipeline KEY`; it may be one of {near}.",
        )
    refuse(
        "no-pipeline",
        place,
        f"no pipeline of vLLM-Omni {VLLM_OMNI} has these stages: {stages}",
        "The model is no longer served as these stages, or was never upstream's; `omnicfg schema pipelines` lists "
        "what is. Pass `--pipeline KEY` for the one that took its place.",
    )
