"""The capability records, whether a pipeline leads to them or not."""

from __future__ import annotations

from typing import Any

from omnicfg.catalog.paths import profiles_dir
from omnicfg.passes.read import read_file
from omnicfg.tree import Layer, LayerKind, plain


def records() -> list[dict[str, Any]]:
    files = sorted((profiles_dir() / "capabilities").glob("*.yaml"))
    return [plain(read_file(path, Layer(LayerKind.PROFILE))) for path in files]
