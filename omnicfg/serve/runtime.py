"""A directory that only this user can enter, for the sockets of one server, and gone with it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from omnicfg.errors import ServeError

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


def runtime_directory(name: str) -> Path:
    """Where the sockets of the server called ``name`` lie; made by :func:`private`, not here.

    Below ``$XDG_RUNTIME_DIR``, which belongs to this user alone by the XDG base directory rules; where there is none,
    in a directory of this user's among the temporary ones.
    """
    configured = Path(os.environ.get("XDG_RUNTIME_DIR", ""))
    if configured.is_absolute() and configured.is_dir():
        return configured / "omnicfg" / name
    return Path(tempfile.gettempdir()) / f"omnicfg-{os.geteuid()}" / name


@contextlib.contextmanager
def private(directory: Path) -> Iterator[None]:
    """``directory`` and its parent exist, closed to everybody else; ``directory`` is removed at the end.

    Raises :class:`ServeError` where somebody else owns one of them, or might enter it.
    """
    _make(directory.parent)
    lock = _locked(directory)
    try:
        yield
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        os.close(lock)


def remove_unused(directory: Path) -> None:
    """Removes a directory that :func:`private` made, unless a living process still uses it, or uses it again."""
    with contextlib.suppress(OSError):
        lock = os.open(directory, _DIRECTORY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(directory, ignore_errors=True)
        finally:
            os.close(lock)


def _locked(directory: Path) -> int:
    """A descriptor whose lock says that the directory is used, for as long as it is open."""
    while True:
        _make(directory)
        with contextlib.suppress(FileNotFoundError):  # removed again as one that nobody used
            lock = os.open(directory, _DIRECTORY)
            fcntl.flock(lock, fcntl.LOCK_SH)
            if directory.exists() and os.path.samestat(os.fstat(lock), directory.lstat()):
                return lock
            os.close(lock)


def _make(folder: Path) -> None:
    try:
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        found = folder.lstat()
    except OSError as error:
        raise ServeError(
            f"the directory {folder} for sockets cannot be made: {error.strerror}",
            "Set XDG_RUNTIME_DIR to a directory of yours that exists.",
        ) from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise ServeError(
            f"{folder} is no directory that only you can enter, so sockets are not put there",
            "Remove it, or set XDG_RUNTIME_DIR to a directory of yours.",
        )
