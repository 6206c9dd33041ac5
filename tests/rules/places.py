"""One and the same setting in every place that a profile can have it in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import omnicfg
from omnicfg.diagnostics import Diagnostic
from tests.conftest import WriteProfile

PLACES = ("profile", "base", "base of the base", "platform", "overlay", "--set")


def set_at(
    place: str,
    profile_file: WriteProfile,
    key: str,
    value: str,
    *,
    stage_id: int = 0,
    pipeline: str = "qwen3_tts",
    stages: Sequence[int] = (0, 1),
    head: str = "async_chunk: false\n",
    **options: Any,
) -> list[Diagnostic]:
    """What all rules say where ``key: value`` of a stage stands in the place, and nothing else does."""
    entries = "".join(f"  - {{stage_id: {one}}}\n" for one in stages)
    bare = f"pipeline: {pipeline}\n{head}stages:\n{entries}"
    setting = f"stages:\n  - stage_id: {stage_id}\n    {key}: {value}\n"
    text = bare
    if place == "profile":
        text = bare.replace(f"  - {{stage_id: {stage_id}}}\n", setting.removeprefix("stages:\n"))
    elif place == "platform":
        text += "platforms:\n  npu:\n" + "".join(f"    {line}\n" for line in setting.splitlines())
    elif place == "overlay":
        options["overlays"] = [profile_file(setting, "overlay.yaml")]
    elif place == "--set":
        options["overrides"] = [f"stages.{stage_id}.{key}={value}"]
    elif place.startswith("base"):
        profile_file(setting, "base.yaml")
        below = "base.yaml"
        if place == "base of the base":
            profile_file("base_config: base.yaml\n", "middle.yaml")
            below = "middle.yaml"
        text = f"base_config: {below}\n{bare}"
    return omnicfg.validate(profile_file(text), **options)


def wrong_file(place: str) -> str:
    """How the path of a finding about the setting ends."""
    return {"overlay": "overlay.yaml", "base": "base.yaml", "base of the base": "base.yaml"}.get(
        place, "profile.yaml" if place != "--set" else ""
    )
