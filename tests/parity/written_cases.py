"""The cases written by hand, one point each: what a drawn overlay would hardly hit.

The texts are data in ``written/``, a line a case: scalars in a place that nothing looks at, whole documents,
``stages``, top-level keys and ``platforms`` (each alone and over a shipped file), chains of files, ``async_chunk``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

Written = tuple[str | None, dict[str, str]]
"""The shipped file that is copied beside it, and file name → text; the last file is the profile."""

SHIPPED: Final = "qwen3_tts.yaml"
_FOLDER: Final = Path(__file__).parent / "written"
_TWO_STAGES: Final = "async_chunk: no\nstages: [{stage_id: 0}, {stage_id: 1}]\n"


def _on(text: str) -> Written:
    """An overlay on a shipped file."""
    return SHIPPED, {"main.yaml": f"base_config: {SHIPPED}\n{text}"}


def _alone(text: str) -> Written:
    """A profile of its own for the same pipeline."""
    return None, {"main.yaml": text}


def _scalar(text: str) -> Written:
    """One scalar where nothing looks at it, in block and in flow style."""
    return _alone(f"async_chunk: false\nstages:\n  - stage_id: 0\n    probe: {text}\n    list: [{text}, x]\n")


def _files(case: dict[str, Any]) -> Written:
    return case["base"], case["files"]


def _read(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((_FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return content


def _written() -> dict[str, Written]:
    stages, tops, platforms = _read("stages"), _read("tops"), _read("platforms")
    return {
        **{f"scalar-{name}": _scalar(text) for name, text in _read("scalars").items()},
        **{f"document-{name}": _alone(text) for name, text in _read("documents").items()},
        **{f"stage-{name}": _alone(f"async_chunk: no\n{text}") for name, text in stages.items()},
        **{f"stage-over-base-{name}": _on(text) for name, text in stages.items()},
        **{f"top-{name}": _on(text) for name, text in tops.items() if not name.startswith("base-")},
        **{f"top-alone-{name}": _alone(text) for name, text in tops.items()},
        **{f"platform-{name}": _alone(f"{_TWO_STAGES}platforms: {text}\n") for name, text in platforms.items()},
        **{f"platform-over-base-{name}": _on(f"platforms: {text}\n") for name, text in platforms.items()},
        **{f"chain-{name}": _files(case) for name, case in _read("chains").items()},
        **{f"async-{name}": _files(case) for name, case in _read("async_chunk").items()},
    }


WRITTEN: Final = _written()
