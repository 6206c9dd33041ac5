"""What omnicfg answers, in the form in which vllm-omni's answers are kept, and where two answers differ."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import omnicfg

from .encoding import canonical, encode


def answer(path: Path, platform: str, pipeline: str | None) -> dict[str, Any]:
    """What omnicfg makes of a profile in the form of the expected data; ``{"ok": False}`` where it refuses."""
    try:
        plan = omnicfg.resolve(str(path), platform=platform, pipeline=pipeline).to_dict()
    except omnicfg.OmnicfgError as error:
        return {"ok": not error.diagnostics}
    return {"ok": True, "deploy": encode(plan["deploy"]), "stages": encode(plan["stages"])}


def differences(ours: Any, theirs: Any, where: str = "") -> list[str]:
    """Where two encoded values differ, for people."""
    if canonical(ours) == canonical(theirs):
        return []
    if isinstance(ours, dict) and isinstance(theirs, dict):
        keys = sorted({*ours, *theirs})
        return [line for key in keys for line in differences(ours.get(key), theirs.get(key), f"{where}.{key}")]
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        pairs = enumerate(zip(ours, theirs, strict=True))
        return [line for index, (one, other) in pairs for line in differences(one, other, f"{where}.{index}")]
    return [f"{where}: omnicfg {ours!r}, vllm-omni {theirs!r}"]
