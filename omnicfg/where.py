"""Where a key of the deploy language belongs, for messages about one that was looked for somewhere else."""

from __future__ import annotations

from typing import Final

from omnicfg.catalog.upstream import deploy_schema
from omnicfg.catalog.vllm_args import known_engine_args

_NO_SETTINGS: Final = ("stages", "stage_id", "platforms", "base_config")  # they say which, on what or over what


def belongs(key: str, stage_id: int = 0) -> tuple[str, str] | None:
    """What a key is a setting of, and its path: ``devices`` is one of ``a stage``, at ``stages.0.devices``.

    ``None`` for a key that the language does not have.
    """
    name, schema = key.split(".", maxsplit=1)[0], deploy_schema()
    if name in _NO_SETTINGS:
        return None
    if name in schema.deploy_fields:
        return "the whole profile", key
    if name in schema.stage_fields or name in known_engine_args():
        return "a stage", f"stages.{stage_id}.{key}"
    if name in schema.sampling_params:
        return "a stage's sampling parameters", f"stages.{stage_id}.default_sampling_params.{key}"
    return None
