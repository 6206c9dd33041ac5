"""How the tests of the rules ask: a profile written as text, its findings as short tuples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import omnicfg
from omnicfg.diagnostics import Diagnostic

Summary = tuple[int, int, str]


def findings(profile: Path, code: str, **options: Any) -> list[Diagnostic]:
    """The findings of one rule about a profile."""
    return [found for found in omnicfg.validate(profile, **options) if found.code == code]


def told(profile: Path, code: str, **options: Any) -> list[Summary]:
    """Line, column and message of the findings of one rule."""
    return [(found.line, found.column, found.message) for found in findings(profile, code, **options)]


def stage(stage_id: int, **settings: object) -> str:
    """An entry of ``stages`` on one line."""
    return "  - {" + ", ".join(f"{key}: {value}" for key, value in {"stage_id": stage_id, **settings}.items()) + "}\n"


def of_one_stage(kind: str, settings: str) -> str:
    """A profile that sets something of a stage of a kind; the settings begin in line 4, column 19."""
    pipeline = {"diffusion": "dreamzero", "llm": "qwen3_tts"}[kind]
    return f"pipeline: {pipeline}\nasync_chunk: false\nstages:\n  - {{stage_id: 0, {settings}}}\n"
