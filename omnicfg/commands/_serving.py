"""What a command needs to know before it starts a server: the checked plan, the model and its configuration."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnicfg.errors import UsageError

if TYPE_CHECKING:
    from omnicfg.plan import Plan


def checked_plan(
    profile: str,
    platform: str,
    overlays: list[Path],
    settings: list[str],
    pipeline: str | None,
    model: str | None,
    engine: str,
) -> Plan | None:
    """The plan, or ``None`` where the profile has errors; what was found goes to standard error."""
    from omnicfg.check import validate
    from omnicfg.compiler import compile_profile, load, pipeline_of
    from omnicfg.diagnostics import Severity
    from omnicfg.errors import OmnicfgError
    from omnicfg.passes.override import parse_overrides
    from omnicfg.report.text import render_errors

    directory = Path(model) if model and Path(model).is_dir() else None
    found = validate(
        profile,
        platform=platform,
        pipeline=pipeline,
        overlays=overlays,
        overrides=settings,
        engine=engine,
        model=directory,
    )
    if found:
        print(render_errors(OmnicfgError(found)), end="", file=sys.stderr)
    if any(diagnostic.severity is Severity.ERROR for diagnostic in found):
        return None
    loaded, overrides = load(profile, overlays), parse_overrides(settings)
    key = pipeline_of(loaded, pipeline, overrides, directory)
    return compile_profile(loaded, platform, key, overrides)


def default_model(pipeline: str) -> str:
    """The model that a pipeline brings. Raises :class:`UsageError` where it brings none."""
    from omnicfg.catalog.upstream import pipelines

    default: str | None = pipelines()[pipeline].get("default_model")
    if default is None:
        raise UsageError(
            f"pipeline {pipeline} has no model of its own, so the server has to be told one",
            "Name a checkpoint's directory or its id on the hub: `--model DIR`.",
        )
    return default


def checkpoint_of(reference: str) -> str:
    """A directory as the server finds it; anything else (an id on the hub) as it was given."""
    from omnicfg.files import expanded

    directory = expanded(reference)
    return str(directory) if directory.is_dir() else reference


def config_of(reference: str, checkpoint: str, plan: Plan) -> Mapping[str, Any] | None:
    """The ``config.json`` of the first stage: of a model of ours, of a directory, or, where it counts, of the hub's."""
    from omnicfg import models
    from omnicfg.payload import rows_record
    from omnicfg.resources.checkpoint import stage_config
    from omnicfg.serve.hub import config_directory

    if models.is_builtin(reference):
        return models.config(reference)
    directory: Path | None = Path(checkpoint)
    if not Path(checkpoint).is_dir():
        directory = config_directory(checkpoint) if rows_record(plan) is not None else None
    return None if directory is None else stage_config(directory, plan.stages[0])
