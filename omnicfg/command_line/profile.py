"""Which profile a command starts: the one that it names, or the default one of its model's pipeline."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from omnicfg.catalog.library import library
from omnicfg.catalog.upstream import pipelines
from omnicfg.command_line.findings import finding
from omnicfg.command_line.parse import CommandLine
from omnicfg.diagnostics import Diagnostic
from omnicfg.errors import UsageError
from omnicfg.passes.pipeline import folded, pipeline_of_model
from omnicfg.tree import Mark


def profile_of(
    line: CommandLine, asked: str, pipeline: str | None, model: Path | None, option: str = "PROFILE"
) -> tuple[str, str | None]:
    """The profile's path or name, and the pipeline where the command tells it. ``option`` is where ``asked`` is from.

    Raises :class:`~omnicfg.errors.OmnicfgError` where nothing tells which profile is started.
    """
    given = line.given.get("deploy_config")
    if given is not None and given.is_open and not asked:
        raise UsageError(
            f"which profile the command starts is not known: `{given.text}` holds what nothing here tells",
            f"Give the variable a value or a default (`${{NAME:-value}}`) in the file, or name the profile: {option}.",
        )
    named = line.value("deploy_config")
    if asked and named is not None:
        raise UsageError(f"the command names a deploy config, and {option} another", f"Leave {option} out.")
    key = pipeline or _told_by_model(line, model)
    if asked or named is not None:
        return asked or str(named), pipeline if pipeline else None
    if key is None:
        raise UsageError(
            "nothing says which profile the command starts: no `--deploy-config`, and a model that tells no pipeline",
            f"Name the profile ({option}), or pass `--pipeline KEY`.",
        )
    default = pipelines()[key]["default_deploy_config_name"]
    stem = Path(default or "").stem
    if stem not in library():
        raise UsageError(
            f"the command starts vLLM-Omni's own default profile of pipeline {key}, which is not shipped here",
            f"Name the file: `--deploy-config FILE`, or {option}.",
        )
    return stem, key


def _told_by_model(line: CommandLine, model: Path | None) -> str | None:
    if model is not None:
        return pipeline_of_model(model)
    text = "" if line.model is None else line.model.text
    if text and os.path.isdir(text):  # noqa: PTH112  # false, where Path raises: a name too long for a file
        return pipeline_of_model(Path(text))
    return _told_by_name(text)


def _told_by_name(text: str) -> str | None:
    """The pipeline whose key is in the last part of a model's name, as upstream tells it where a model says nothing."""
    name = folded(text.rstrip("/").rpartition("/")[2])
    contained = [key for key in pipelines() if folded(key) in name]
    return max(contained, key=len) if contained and name else None


def findings_of_command(line: CommandLine) -> Iterator[Diagnostic]:
    """What a command lacks to start vLLM-Omni at all."""
    place = line.model.mark if line.model is not None else Mark("--command", 1, 1, 1, 2)
    if "omni" not in line.given:
        yield finding(
            "ineffective-flag",
            place,
            "without `--omni` vLLM itself is started, which reads no profile",
            "Add `--omni`.",
        )
    if line.model is None or not line.model.text.strip():
        yield finding("bad-flag-value", place, "`vllm serve --omni` needs a model", "Name it first.")
