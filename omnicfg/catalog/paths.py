"""Where the shipped data lies: inside an installed package, or at the root of a checkout."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any


@functools.cache
def data_root() -> Path:
    """The directory that holds ``profiles/`` and ``schemas/``."""
    package = Path(__file__).resolve().parent.parent
    packed = package / "_data"
    return packed if packed.is_dir() else package.parent


def profiles_dir() -> Path:
    return data_root() / "profiles"


def schemas_dir() -> Path:
    return data_root() / "schemas"


@functools.cache
def load_json(relative: str) -> Any:
    """A shipped JSON file, read once. ``relative`` is a path below the data root."""
    return json.loads((data_root() / relative).read_text(encoding="utf-8"))
