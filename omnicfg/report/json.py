"""Machine-readable output: plain JSON, and the report of ``validate`` in it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from omnicfg.diagnostics import Diagnostic, summarize


def dumps(value: Any) -> str:
    """Strict JSON with two spaces of indent and a newline at the end; YAML's ``.inf`` and ``.nan`` become text."""
    return json.dumps(_strict(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _strict(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    if isinstance(value, Mapping):
        return {_strict(key): _strict(child) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(child) for child in value]
    return value


def render_report(diagnostics: Sequence[Diagnostic], profiles: int) -> str:
    """``{"diagnostics": [...], "summary": {"profiles": 3, "error": 2, "warning": 1, "note": 0}}``."""
    return dumps(
        {
            "diagnostics": [diagnostic.to_dict() for diagnostic in diagnostics],
            "summary": {"profiles": profiles, **summarize(diagnostics)},
        }
    )
