"""A directory that stands for another one: a repository at a revision, unpacked elsewhere.

A base may be named by a full path, or by one that leads out of the directory. Read in the copy, such a path would lead
to a file as it is today, or to none; what is meant is the file of the revision, which lies in the copy.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from omnicfg.files import is_below

_in_force: ContextVar[tuple[str, str] | None] = ContextVar("standing_for", default=None)


@contextmanager
def standing_for(copy: Path, origin: Path) -> Iterator[None]:
    """Within it, :func:`beside` reads ``copy`` wherever a path leads below ``origin``. Both are full paths."""
    token = _in_force.set((os.path.normpath(copy), os.path.normpath(origin)))
    try:
        yield
    finally:
        _in_force.reset(token)


def beside(file: Path, value: str) -> Path:
    """The file that ``value`` names, as it is written in ``file``: relative to its directory, or a full path."""
    places = _in_force.get()
    if places is None:
        return file.parent / value
    copy, origin = places
    folder = os.path.normpath(file.parent.absolute())
    target = _joined(folder, value)
    if is_below(target, copy):
        return file.parent / value
    if is_below(folder, copy):
        target = _joined(_moved(folder, copy, origin), value)
    return Path(_moved(target, origin, copy) if is_below(target, origin) else target)


def _joined(folder: str, value: str) -> str:
    return os.path.normpath(os.path.join(folder, value))  # noqa: PTH118  # by its words, no link followed


def _moved(path: str, start: str, end: str) -> str:
    return _joined(end, os.path.relpath(path, start))
