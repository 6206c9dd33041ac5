"""What a model directory says of itself: its ``config.json``, read as the untrusted file that it is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omnicfg.passes.pipeline import read_json
from omnicfg.plan import StagePlan


def stage_directory(model: Path, stage: StagePlan) -> Path:
    """Where a stage's own checkpoint lies: the model's directory, or the part of it that the pipeline names."""
    part = stage.arg("model_subdir")
    return model / part if isinstance(part, str) and part else model


def stage_config(model: Path, stage: StagePlan) -> Mapping[str, Any] | None:
    """The ``config.json`` of a stage; ``None`` where there is none.

    Raises :class:`~omnicfg.errors.ResolveError` for one that cannot be read, or is no JSON object.
    """
    path = stage_directory(model, stage) / "config.json"
    return read_json(path) if path.is_file() else None
