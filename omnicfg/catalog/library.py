"""The shipped profiles by name."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Final

from omnicfg.buffers import text_of
from omnicfg.catalog.paths import profiles_dir
from omnicfg.errors import UsageError
from omnicfg.near import near

_FEW: Final = 8  # names that are told, where a part of one is given
_PART: Final = 3  # letters of a name that somebody could remember it by


@functools.cache
def library() -> dict[str, Path]:
    """Profile name (the file's stem) → its file."""
    return {path.stem: path for path in sorted(profiles_dir().glob("*.yaml"))}


def find_profile(profile: str | Path) -> tuple[Path, str]:
    """The file behind a path or a library name, and how to show it. Raises :class:`UsageError` with near names.

    A file that exists wins over a library name. Names match with ``-`` and ``_`` alike, with or without ``.yaml``.
    """
    path = Path(profile)
    text = str(profile)
    if not text:
        raise UsageError("the name of a profile is empty", "`omnicfg profiles` lists the shipped names.")
    # False, where Path raises: a name too long for a file.
    if os.path.isfile(path) or text_of(path) is not None:  # noqa: PTH113
        return path, text
    named = _by_name(text)
    if named is not None:
        return named, named.name
    if os.path.isdir(path):  # noqa: PTH112  # likewise
        raise UsageError(f"`{text}` is a directory", "Name one profile; `omnicfg validate` takes directories.")
    if os.path.exists(path):  # noqa: PTH110  # likewise
        raise UsageError(f"`{text}` is a pipe or a device", "Write the profile to a file, and name that.")
    if os.path.islink(path):  # noqa: PTH114  # likewise
        raise UsageError(f"`{text}` is a link that leads to no file", "Name a file, or mend the link.")
    raise UsageError(f"no profile `{text}`: neither a file nor a name of the shipped library", _hint(path))


def _by_name(text: str) -> Path | None:
    if "/" in text or "\\" in text:
        return None
    stem = text.removesuffix(".yaml").replace("-", "_").lower()
    return {name.replace("-", "_").lower(): path for name, path in library().items()}.get(stem)


def _hint(path: Path) -> str:
    try:
        siblings = [entry.name for entry in path.parent.glob("*.y*ml")] if path.parent.is_dir() else []
    except (OSError, ValueError):
        siblings = []
    close = near(path.name, siblings)
    if close:
        return f"Did you mean `{path.parent / close}`?"
    stem = path.name.removesuffix(".yaml")
    close = stem if stem in library() else near(stem, library())
    if close:
        return f"Did you mean `{close}`?"
    return _similar(stem) or "`omnicfg profiles` lists the shipped names."


def _similar(stem: str) -> str | None:
    """Shipped names of which somebody remembers a part."""
    if len(stem) < _PART:
        return None
    similar = [name for name in library() if stem.replace("-", "_").lower() in name.lower()]
    return f"Shipped names with that in them: {', '.join(similar)}." if 0 < len(similar) <= _FEW else None
