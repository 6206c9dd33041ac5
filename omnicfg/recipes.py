"""Overlays that a tool can write for its user, each tried out before it is shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from omnicfg.compiler import Profile, compile_profile
from omnicfg.differences.compare import same
from omnicfg.errors import ResolveError
from omnicfg.passes.deploy import deploy
from omnicfg.passes.inherit import merge_documents
from omnicfg.passes.override import Override
from omnicfg.passes.read import read_text
from omnicfg.report.yaml import dumps
from omnicfg.tree import Layer, LayerKind


def overlay_for(
    profile: Profile,
    platform: str,
    pipeline: str,
    stage_id: int,
    key: str,
    value: Any,
    overrides: Sequence[Override] = (),
) -> str | None:
    """The text of the simplest overlay on ``profile`` that gives an engine arg of a stage the value on a platform.

    ``None`` where none of the forms that were tried does: then the command line sets the value.
    """
    layer = Layer(LayerKind.OVERLAY, "overlay.yaml")
    for document in _forms(platform, {"stage_id": stage_id, key: value}):
        text = dumps(document)
        raw = merge_documents(profile.raw, read_text(text, layer, "overlay.yaml"))
        try:
            plan = compile_profile(profile._replace(raw=raw, deploy=deploy(raw)), platform, pipeline, overrides)
        except ResolveError:
            continue
        stage = plan.stage(stage_id)
        if stage is not None and same(stage.arg(key), value):
            return dumps({"base_config": profile.shown, **document})
    return None


def _forms(platform: str, stage: dict[str, Any]) -> Iterator[dict[str, Any]]:
    stage_id = stage["stage_id"]
    settings = {name: value for name, value in stage.items() if name != "stage_id"}
    yield {"stages": [stage]}
    yield {"platforms": {platform: {"stages": [stage]}}}
    yield {"stages": [{"stage_id": stage_id, "engine_args": settings}]}
    yield {"stages": [{"stage_id": stage_id, "engine_extras": settings}]}
