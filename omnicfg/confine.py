"""What the files of a profile may reach while it is read: files below one folder, and environment variables by name.

A profile may be anybody's. Its bases are paths, and its ``${oc.env:NAME}`` take in what the process was started with.
The limits hold for the whole process, whichever thread reads: what was not allowed anywhere must not be read elsewhere.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from omnicfg.catalog.paths import data_root
from omnicfg.errors import UsageError
from omnicfg.files import is_below


class _Limits(NamedTuple):
    """``root`` as it was given; ``folders`` with every link followed, none of them where anything may be read."""

    root: str = ""
    folders: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()


_limits = _Limits()


@contextmanager
def confined(root: str | os.PathLike[str] | None = None, allow_env: Iterable[str] = ()) -> Iterator[None]:
    """Within it, profiles are read below ``root`` only (anywhere, without one), and may use the variables named.

    ``allow_env`` holds names, or patterns such as ``VLLM_*``. The shipped profiles are always readable. Raises
    :class:`UsageError` where ``root`` is no directory, or no variable can have one of the names.
    """
    allow_env = tuple(allow_env)
    for name in allow_env:
        if not name or "=" in name:
            raise UsageError(f"no environment variable is called `{name}`", "Name it alone: `--allow-env NAME`.")
    folders: tuple[str, ...] = ()
    if root is not None:
        if not os.path.isdir(root):  # noqa: PTH112  # false, where Path raises
            raise UsageError(f"the root `{root}` is not a directory", "Name the directory that everything lies in.")
        folders = (os.path.realpath(root), os.path.realpath(data_root()))
    with _set(_Limits("" if root is None else os.fspath(root), folders, allow_env)):
        yield


@contextmanager
def copied(origin: Path, copy: Path) -> Iterator[None]:
    """Within it, the part of ``copy`` that stands for the root is readable too; ``copy`` is ``origin`` elsewhere."""
    there = [_in_copy(folder, os.path.realpath(origin), os.path.realpath(copy)) for folder in _limits.folders[:1]]
    with _set(_limits._replace(folders=(*_limits.folders, *filter(None, there)))):
        yield


def _in_copy(root: str, origin: str, copy: str) -> str | None:
    if is_below(root, origin):
        return os.path.normpath(os.path.join(copy, os.path.relpath(root, origin)))  # noqa: PTH118
    return copy if is_below(origin, root) else None


@contextmanager
def _set(limits: _Limits) -> Iterator[None]:
    global _limits  # noqa: PLW0603  # for the whole process, as said above
    before, _limits = _limits, limits
    try:
        yield
    finally:
        _limits = before


def may_read(path: str | os.PathLike[str]) -> bool:
    """Whether a file lies where files may be read, every symbolic link followed."""
    if not _limits.folders:
        return True
    try:
        real = os.path.realpath(path)
    except (OSError, ValueError):
        return False
    return any(is_below(real, folder) for folder in _limits.folders)


def require_readable(path: str | os.PathLike[str]) -> None:
    """Raises :class:`UsageError` for a file that may not be read."""
    if not may_read(path):
        raise UsageError(f"`{path}` lies outside `--root {_limits.root}`", "Name a file below it, or a wider root.")


def root_shown() -> str:
    """The root as it was given; empty where there is none."""
    return _limits.root


def given() -> dict[str, object]:
    """The limits that are set, as a command's options give them; ``None`` for one that is not."""
    return {"--root": _limits.root or None, "--allow-env": _limits.variables or None}


def may_use(variable: str) -> bool:
    """Whether a profile may take in an environment variable."""
    from fnmatch import fnmatchcase

    return any(fnmatchcase(variable, pattern) for pattern in _limits.variables)
