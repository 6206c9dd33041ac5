"""Which pipeline a profile configures: asked for, named in the file, told by the model, or by the file's name.

vLLM-Omni 0.30.0 takes ``pipeline:`` first, then the served model's ``config.json`` (``model_type``, then
``architectures``), and knows for each pipeline the file name of its default profile (``config_factory.py``).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping as MappingOf
from pathlib import Path
from typing import Any, Final

from omnicfg.catalog.upstream import default_deploy_files, pipelines
from omnicfg.near import near
from omnicfg.passes.inherit import Chain
from omnicfg.passes.read import load_text
from omnicfg.refusals import refuse
from omnicfg.tree import Mapping, Mark, plain
from omnicfg.wording import in_yaml

_MAX_CANDIDATES: Final = 4


def find_pipeline(raw: Mapping, path: Path, chain: Chain, asked: str | None = None, model: Path | None = None) -> str:
    """The registry key. Refuses an unknown key, and a profile that nothing assigns to a pipeline."""
    if model is not None and not model.is_dir():
        refuse(
            "unreadable-file", Mark(str(model)), f"no model directory `{model}`", "Name a directory with a model in it."
        )
    if asked is not None:
        return known_pipeline(asked, Mark("--pipeline"))
    named = raw.items.get("pipeline")
    if named is not None and plain(named) is not None:
        return known_pipeline(plain(named), named.mark)
    told = None if model is None else pipeline_of_model(model)
    if told is not None:
        return told
    for document in chain.documents:
        key = default_deploy_files().get(Path(document.mark.file).name)
        if key is not None:
            return key
    says = "nothing says which pipeline this profile configures"
    if model is not None:
        says = f"no pipeline serves the model in {model}"
    refuse("no-pipeline", Mark(raw.mark.file, 1, 1, 1, 1), says, _candidates(path))


def guess_pipeline(path: Path) -> str | None:
    """The pipeline that a file's name points to (``qwen3_tts_high_concurrency`` → ``qwen3_tts``), or ``None``.

    Only a hint: upstream does not look at file names other than those of default profiles.
    """
    stem = path.stem.lower().replace("-", "_")
    by_stem = {Path(name).stem: key for name, key in default_deploy_files().items()}
    names = {**{key: key for key in pipelines()}, **by_stem}
    fitting = [name for name in names if stem == name or stem.startswith(f"{name}_")]
    return names[max(fitting, key=len)] if fitting else None


def pipeline_of_model(model: Path) -> str | None:
    """The pipeline of a model directory, found as upstream finds it; ``None`` where no pipeline serves the model.

    In this order: ``model_type`` (or a singular ``architecture``), the diffusers class in ``model_index.json``, the
    longest key contained in the directory's name, and last ``architectures``.
    """
    if not os.path.isdir(model):  # noqa: PTH112  # false, where Path raises: a name too long for a file
        refuse(
            "unreadable-file", Mark(str(model)), f"no model directory `{model}`", "Name a directory with a model in it."
        )
    config, index = (_json_if_there(model / name) for name in ("config.json", "model_index.json"))
    told = config.get("model_type", config.get("architecture"))
    key = _by_model_type(told, config) if isinstance(told, str) else None
    if key is None and told is None:
        key = _by_diffusers_class(index) or _by_name(model)
    key = key or _by_architecture(config)
    return None if key is None else _variant(key, config)


def _json_if_there(path: Path) -> dict[str, Any]:
    return read_json(path) if os.path.exists(path) else {}  # noqa: PTH110  # false, where Path raises


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object of bounded size from a model directory."""
    mark = Mark(str(path))
    try:
        value = json.loads(load_text(path, str(path)))
    except (ValueError, RecursionError):
        refuse("unreadable-file", mark, f"{path} is not JSON", "Name a directory with a model in it.")
    if not isinstance(value, dict):
        refuse("unreadable-file", mark, f"{path} is not a JSON object")
    return value


def _by_model_type(model_type: str, config: MappingOf[str, Any]) -> str | None:
    for key, pipeline in pipelines().items():
        conditions = pipeline["hf_model_type_conditions"].get(model_type, {})
        if model_type in pipeline["hf_model_types"] and all(
            _setting(config, name) == value for name, value in conditions.items()
        ):
            return key
    return None


def _setting(config: MappingOf[str, Any], dotted_name: str) -> Any:
    value: Any = config
    for step in dotted_name.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _by_diffusers_class(index: MappingOf[str, Any]) -> str | None:
    name = index.get("_class_name")
    for key, pipeline in pipelines().items():
        if name is not None and name in (pipeline["diffusers_class_name"], *pipeline["diffusers_class_aliases"]):
            return key
    return None


def _by_name(model: Path) -> str | None:
    name = folded(model.resolve().name)
    contained = [key for key in pipelines() if folded(key) in name]
    return max(contained, key=lambda key: len(folded(key))) if contained else None


def folded(name: str) -> str:
    """What counts of a model's name where a pipeline's key is looked for in it."""
    return name.lower().replace("-", "").replace("_", "")


def _by_architecture(config: MappingOf[str, Any]) -> str | None:
    names = config.get("architectures")
    wanted = {name for name in names if isinstance(name, str)} if isinstance(names, list) else set()
    for key, pipeline in pipelines().items():
        predicate = pipeline["hf_config_predicate"] or {}
        if wanted & set(pipeline["hf_architectures"]) and all(
            config.get(name) == value for name, value in predicate.items()
        ):
            return key
    return None


def _variant(key: str, config: MappingOf[str, Any]) -> str:
    for variant in pipelines()[key].get("variants") or ():
        if all(config.get(name) == value for name, value in variant["when"].items()):
            return str(variant["pipeline"])
    return key


def known_pipeline(key: object, mark: Mark) -> str:
    """The key if it is registered; refused otherwise, with a near one."""
    if isinstance(key, str) and key in pipelines():
        return key
    close = near(str(key), pipelines())
    hint = f"Did you mean `{close}`?" if close else "`omnicfg schema pipelines` lists them."
    named = f"no pipeline `{key}`" if isinstance(key, str) else f"a pipeline is named by text, not by {in_yaml(key)}"
    refuse("unknown-pipeline", mark, named, hint)


def _candidates(path: Path) -> str:
    guess = guess_pipeline(path)
    if guess is not None:
        return f"Add `pipeline: {guess}` or pass `--pipeline {guess}`."
    near_ones = _near_candidates(path.stem.lower().replace("-", "_"))
    if near_ones:
        return f"Add `pipeline: KEY` or pass `--pipeline KEY`; near candidates: {', '.join(near_ones)}."
    return "Add `pipeline: KEY` or pass `--pipeline KEY`; `omnicfg schema pipelines` lists the keys."


def _near_candidates(stem: str) -> list[str]:
    """Keys that begin with the same word as the file's name, otherwise those that look alike."""
    import difflib

    word = stem.split("_", 1)[0]
    kin = [key for key in pipelines() if key.split("_", 1)[0] == word]
    return difflib.get_close_matches(stem, kin or list(pipelines()), n=_MAX_CANDIDATES, cutoff=0.0 if kin else 0.6)
