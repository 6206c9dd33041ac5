"""The small profiles below ``tests/data/traps``, each one mistake, with what it takes to resolve them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "data" / "traps"


@dataclass(frozen=True, slots=True)
class Trap:
    """A profile with one mistake."""

    name: str
    path: Path
    pipeline: str
    cli: Mapping[str, Any]
    """Command-line overrides by vllm-omni's names, such as ``stage_0_max_num_seqs``."""


def traps() -> Iterator[Trap]:
    """All of them, by name."""
    index = json.loads((FOLDER / "index.json").read_text(encoding="utf-8"))
    for name, entry in index.items():
        path = FOLDER / name / entry.get("profile", "main.yaml")
        yield Trap(name, path, entry.get("pipeline", "qwen3_tts"), entry.get("cli", {}))
