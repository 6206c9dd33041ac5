"""Files: written whole, so that whoever looks sees all of what was there before or is there now; named from here."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from omnicfg.errors import UsageError


def current_folder() -> Path:
    """The folder that we are in; the root where it has been deleted, and there is none."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return Path(os.sep)


def relative_to_here(path: Path) -> Path:
    """A path that is absolute as one from the folder that we are in."""
    return Path(os.path.relpath(path, current_folder()))


def check_writable(path: Path) -> None:
    """Raises :class:`UsageError` where a file cannot be written for reasons that show before there is content."""
    if path.is_dir():
        raise UsageError(f"`{path}` is a directory", "Name a file.")
    if not path.parent.is_dir():
        raise UsageError(f"`{path}` cannot be written: there is no directory `{path.parent}`", "Make it first.")


def write_whole(path: Path, text: str) -> None:
    """Put ``text`` into a file at once, keeping the permissions of the file that was there.

    A link stays a link; what is no regular file (``/dev/stderr``) is written to as it is. Raises :class:`UsageError`.
    """
    check_writable(path)
    target = path.resolve()
    try:
        if target.exists() and not target.is_file():
            with target.open("w", encoding="utf-8", newline="") as stream:
                stream.write(text)
        else:
            _replace(target, text)
    except OSError as error:
        raise UsageError(f"`{path}` cannot be written: {error.strerror}", "Check its permissions.") from None


def _replace(target: Path, text: str) -> None:
    handle, name = tempfile.mkstemp(prefix=f".{target.name}-", dir=target.parent)
    try:
        with open(handle, "w", encoding="utf-8", newline="") as stream:  # noqa: PTH123  # a descriptor
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).chmod(_mode(target))
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _mode(target: Path) -> int:
    """The permissions of the file that is replaced; those that a new one gets here, where there is none."""
    if target.exists():
        return stat.S_IMODE(target.stat().st_mode)
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask
