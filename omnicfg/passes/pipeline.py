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
from omnicfg.passes.read import MAX_BYTES
from omnicfg.refusals import refuse
from omnicfg.tree import Mapping, Mark, plain

_MAX_CANDIDATES: Final = 4


def find_pipeline(
    raw: Mapping, path: Path, chain: Chain, asked: str | None = None, model: Path | None = None
) -> str:
    """The registry key. Refuses an unknown key, and a profile that nothing assigns to a pipeline."""
    if asked is not None:
        return _known(asked, Mark("--pipeline"))
    named = raw.items.get("pipeline")
    if named is not None and plain(named) is not None:
        return _known(plain(named), named.mark)
    config = None if model is None else read_model_config(model)
    told = None if config is None else pipeline_of_config(config)
    if told is not None:
        return told
    for document in chain.documents:
        key = default_deploy_files().get(os.path.basename(document.mark.file))
        if key is not None:
            return key
    refuse("no-pipeline", Mark(raw.mark.file, 1, 1, 1, 1), _nothing_says(model, config), _candidates(path))


def guess_pipeline(path: Path) -> str | None:
    """The pipeline that a file's name points to (``qwen3_tts_high_concurrency`` → ``qwen3_tts``), or ``None``.

    Only a hint: upstream does not look at file names other than those of default profiles.
    """
    stem = path.stem.lower().replace("-", "_")
    by_stem = {Path(name).stem: key for name, key in default_deploy_files().items()}
    names = {**{key: key for key in pipelines()}, **by_stem}
    fitting = [name for name in names if stem == name or stem.startswith(f"{name}_")]
    return names[max(fitting, key=len)] if fitting else None


def read_model_config(model: Path) -> dict[str, Any]:
    """``config.json`` of a model directory. Refuses a directory without a readable one."""
    path = model / "config.json"
    mark = Mark(str(path))
    try:
        if path.stat().st_size > MAX_BYTES:
            refuse("too-large", mark, f"{path} is larger than {MAX_BYTES} bytes")
        config = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        refuse("unreadable-file", mark, f"{path} cannot be read: {error.strerror}", "Name a directory with a model in it.")
    except (ValueError, RecursionError):
        refuse("unreadable-file", mark, f"{path} is not JSON", "Name a directory with a model in it.")
    if not isinstance(config, dict):
        refuse("unreadable-file", mark, f"{path} is not a JSON object")
    return config


def pipeline_of_config(config: MappingOf[str, Any]) -> str | None:
    """The pipeline of a model by its ``model_type``, then by its ``architectures``."""
    known = pipelines()
    for key in (config.get("model_type"), config.get("architecture")):
        if isinstance(key, str) and key in known:
            return _variant(key, config)
    architectures = config.get("architectures")
    wanted = {name for name in architectures if isinstance(name, str)} if isinstance(architectures, list) else set()
    for key, pipeline in known.items():
        predicate = pipeline.get("hf_config_predicate") or {}
        if wanted & set(pipeline.get("hf_architectures") or ()) and all(
            config.get(name) == value for name, value in predicate.items()
        ):
            return key
    return None


def _variant(key: str, config: MappingOf[str, Any]) -> str:
    for variant in pipelines()[key].get("variants") or ():
        if all(config.get(name) == value for name, value in variant["when"].items()):
            return str(variant["pipeline"])
    return key


def _known(key: object, mark: Mark) -> str:
    if isinstance(key, str) and key in pipelines():
        return key
    close = near(str(key), pipelines())
    hint = f"Did you mean `{close}`?" if close else "`omnicfg schema pipelines` lists them."
    refuse("unknown-pipeline", mark, f"no pipeline `{key}`", hint)


def _nothing_says(model: Path | None, config: MappingOf[str, Any] | None) -> str:
    if config is None:
        return "nothing says which pipeline this profile configures"
    kind = config.get("model_type") or config.get("architectures")
    return f"no pipeline serves the model in {model} (model_type {kind!r})"


def _candidates(path: Path) -> str:
    guess = guess_pipeline(path)
    if guess is not None:
        return f"Add `pipeline: {guess}` or pass `--pipeline {guess}`."
    import difflib

    close = difflib.get_close_matches(path.stem.lower(), list(pipelines()), n=_MAX_CANDIDATES, cutoff=0.4)
    if close:
        return f"Add `pipeline: KEY` or pass `--pipeline KEY`; near candidates: {', '.join(close)}."
    return "Add `pipeline: KEY` or pass `--pipeline KEY`; `omnicfg schema pipelines` lists the keys."
