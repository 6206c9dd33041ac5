"""A directory that only this user can enter, for the sockets of one server, and gone with it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from omnicfg.errors import ServeError

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_REMOVAL_S: Final = 2.0
"""How long the watcher of a server that was killed may be at removing its directory."""
_POLL_S: Final = 0.05


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

    Raises :class:`ServeError` where somebody else owns one of them, or might enter it, and where a server uses
    ``directory`` already: two would take each other's sockets away.
    """
    _make(directory.parent)
    lock = _locked(directory)
    try:
        yield
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        os.close(lock)


def remove_unused(directory: Path) -> None:
    """Removes a directory that :func:`private` made, unless a living process uses it again."""
    with contextlib.suppress(OSError):
        lock = os.open(directory, _DIRECTORY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(directory, ignore_errors=True)
        finally:
            os.close(lock)


def _locked(directory: Path) -> int:
    """A descriptor whose lock says that the directory is used, for as long as it is open."""
    deadline = time.monotonic() + _REMOVAL_S
    while time.monotonic() < deadline:
        _make(directory)
        with contextlib.suppress(FileNotFoundError):  # removed again as one that nobody used
            lock = os.open(directory, _DIRECTORY)
            if _is_ours(lock, directory):
                return lock
            os.close(lock)
        time.sleep(_POLL_S)
    raise ServeError(
        f"{directory} is in use: a server of yours has this address, or is about to have it",
        "Stop that one, or choose another `--port`.",
    )


def _is_ours(lock: int, directory: Path) -> bool:
    """Whether the lock could be had, of the directory that has the name by now."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return directory.exists() and os.path.samestat(os.fstat(lock), directory.lstat())


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
