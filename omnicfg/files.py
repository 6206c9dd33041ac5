"""Writing files so that a reader sees the old content or the new, never a part of one; and naming paths from here."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

from omnicfg.errors import UsageError

NO_TEXT: Final = "backslashreplace"
"""How a file name that is not UTF-8 is written in a text: as an escape that readers of JSON turn back into it."""
_SOURCES: Final = frozenset({".yaml", ".yml", ".toml"})
_LONGEST_STEM: Final = 64
"""Of a draft's name, which gets a suffix and still has to be short enough for a file."""


def current_folder() -> Path:
    """The folder that we are in. Raises :class:`UsageError` where it has been removed, so no path means anything."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise UsageError("the current directory has been removed", "Change to one that is there.") from None


def expanded(path: str | Path) -> Path:
    """A path with the home directory in the place of ``~``; unchanged where that is not known."""
    return Path(os.path.expanduser(path))  # noqa: PTH111  # pathlib raises where there is none


def relative_to_here(path: Path) -> Path:
    """A path that is absolute as one from the folder that we are in."""
    return Path(os.path.relpath(path, current_folder()))


def is_below(path: str, folder: str) -> bool:
    """Whether a path is that of a folder or of something in it; both are full and normal, no link is followed."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def make_directory(folder: Path) -> None:
    """A directory and those above it, where they are not there yet. Raises :class:`UsageError`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"the directory `{folder}` cannot be made: {error.strerror}", "Name another one.") from None


def check_writable(path: Path) -> None:
    """Raises :class:`UsageError` where a file cannot be written for reasons that show before there is content."""
    if path.is_dir():
        raise UsageError(f"`{path}` is a directory", "Name a file.")
    if not path.parent.is_dir():
        raise UsageError(f"`{path}` cannot be written: there is no directory `{path.parent}`", "Make it first.")


def check_report(path: Path) -> None:
    """The same for a report: it never takes the place of a profile, a policy or a configuration.

    Raises :class:`UsageError`.
    """
    if path.suffix.lower() in _SOURCES:
        raise UsageError(
            f"no report is written to `{path}`: by its name it is a profile, a policy or a configuration",
            "Give the report another ending, such as `.json` or `.txt`.",
        )
    check_writable(path)


def write_whole(path: Path, content: str | bytes) -> None:
    """Put ``content`` into a file at once, keeping the permissions of the file that was there.

    A link stays a link. What is no regular file (``/dev/stdout``, a pipe) is written to in place, under the name that
    is given: it may be a link to something without a name. Raises :class:`UsageError`.
    """
    check_writable(path)
    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as stream:
                stream.write(_bytes(content))
        else:
            take_place(path.resolve(), content)
    except OSError as error:
        hint = "Check its permissions." if isinstance(error, PermissionError) else None
        raise UsageError(f"`{path}` cannot be written: {error.strerror}", hint) from None


def _bytes(content: str | bytes) -> bytes:
    return content if isinstance(content, bytes) else content.encode("utf-8", NO_TEXT)


def take_place(
    target: Path,
    content: str | bytes,
    *,
    suffix: str = "",
    prove: Callable[[Path], None] = lambda _draft: None,
    mode: int | None = None,
) -> None:
    """Write ``content`` beside ``target``, ``prove`` it there, and only then let it take its place and permissions.

    The draft's name ends with ``suffix``. It goes again where anything fails, or a signal asks to stop. ``mode`` are
    permissions instead of the target's. Raises :class:`OSError`.
    """
    from omnicfg.interrupt import interruptible

    with interruptible():
        draft = unused_beside(target, suffix)
        try:
            handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(handle, "wb") as stream:  # noqa: PTH123
                stream.write(_bytes(content))
                stream.flush()
                os.fsync(stream.fileno())
            draft.chmod(mode_of(target) if mode is None else mode)
            prove(draft)
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)


def unused_beside(target: Path, suffix: str = "") -> Path:
    """A path for a hidden draft beside ``target`` that nothing else uses.

    The caller has it before the file exists, and so can remove the draft whenever it is stopped.
    """
    return target.with_name(f".{target.name[:_LONGEST_STEM]}.{os.urandom(8).hex()}{suffix}")


def mode_of(target: Path) -> int:
    """The permissions of the file that is replaced; those that a new one gets here, where there is none."""
    if target.exists():
        return stat.S_IMODE(target.stat().st_mode)
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask
