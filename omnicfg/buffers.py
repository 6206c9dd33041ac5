"""Texts that stand in for files: the unsaved buffers of an editor, and fixes that are tried before they are written.

Within ``with buffers:`` the reader takes such a text wherever its file is read, and keeps the trees that it makes, so
that a base is parsed once however many profiles build on it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from omnicfg.tree import Layer
    from omnicfg.tree import Mapping as Tree

_Stamp = str | tuple[int, int, int]


def identity(path: str | os.PathLike[str]) -> str:
    """What identifies a file: its path with every symbolic link followed."""
    return os.path.realpath(path)


class Buffers:
    """Texts by the :func:`identity` of the file they stand in for, and the trees of what was read."""

    def __init__(self, texts: Mapping[str, str] | None = None) -> None:
        self.texts = dict(texts or {})
        self._trees: dict[tuple[str, Layer, str], tuple[_Stamp, Tree]] = {}
        self._entered: list[Token[Buffers | None]] = []

    def __enter__(self) -> Self:
        self._entered.append(_in_use.set(self))
        return self

    def __exit__(self, *_: object) -> None:
        _in_use.reset(self._entered.pop())

    def text(self, path: Path) -> str | None:
        """The text that stands in for a file; ``None`` where the file itself counts."""
        return self.texts.get(identity(path)) if self.texts else None

    def tree(self, path: Path, layer: Layer, shown: str, read: Callable[[], Tree]) -> Tree:
        """The tree of a file, read anew only where its text has changed since."""
        key = (identity(path), layer, shown)
        stamp = self._stamp(path, key[0])
        kept = self._trees.get(key)
        if kept is not None and kept[0] == stamp:
            return kept[1]
        tree = read()
        if stamp is not None:
            self._trees[key] = (stamp, tree)
        return tree

    def _stamp(self, path: Path, name: str) -> _Stamp | None:
        if name in self.texts:
            return self.texts[name]
        try:
            status = path.stat()
        except (OSError, ValueError):
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino


_in_use: ContextVar[Buffers | None] = ContextVar("buffers", default=None)


def in_use() -> Buffers | None:
    """The buffers that the reader takes its files from, if there are any."""
    return _in_use.get()


def text_of(path: Path) -> str | None:
    """The text that stands in for a file here and now."""
    buffers = _in_use.get()
    return None if buffers is None else buffers.text(path)
