"""A migrated profile, and the base that goes with it, on disk: whole, proven, or not at all."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from omnicfg.errors import UsageError
from omnicfg.files import NO_TEXT, mode_of, take_place
from omnicfg.migrate.bases import copies
from omnicfg.migrate.command import MigratedCommand
from omnicfg.migrate.run import Migration, verify


def write_profile(migration: Migration, path: Path, *, backup: bool = False) -> list[Path]:
    """Write the profile to ``path``; the other files that were written for it: the old file's copy, copies of bases.

    What is written is compiled once more from disk before it takes its place. Raises :class:`UsageError` where
    something cannot be written; then nothing has changed.
    """
    made: list[Path] = []
    with _undone(made), _trouble(path):
        for target, text in copies(migration.base, path.parent).items():
            _make_folder(target.parent, made)
            _write(target, text, made)
        if backup:
            copy = _free_name(path)
            _write_bytes(copy, path.read_bytes(), made)
            copy.chmod(mode_of(path))
        _replace(path, migration)
    return [each for each in made if each.is_file()]


def write_overlay(made: MigratedCommand, path: Path) -> list[Path]:
    """Write the overlay of a command to ``path``, and copies of a base that lies elsewhere; the files written."""
    written: list[Path] = []
    with _undone(written), _trouble(path):
        for target, text in copies(made.base, path.parent).items():
            _make_folder(target.parent, written)
            _write(target, text, written)
        take_place(path, made.text)
    return [*(each for each in written if each.is_file()), path]


@contextlib.contextmanager
def _undone(made: list[Path]) -> Iterator[None]:
    """Takes away what was made where the rest could not be."""
    try:
        yield
    except BaseException:
        for each in reversed(made):
            with contextlib.suppress(OSError):
                each.rmdir() if each.is_dir() else each.unlink()
        raise


@contextlib.contextmanager
def _trouble(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        where = error.filename or path
        message = f"{where} cannot be written: {error.strerror}"
        raise UsageError(message, "Check the path and its permissions.") from None


def _make_folder(folder: Path, made: list[Path]) -> None:
    if not folder.is_dir():
        folder.mkdir()
        made.append(folder)


def _write(path: Path, text: str, made: list[Path]) -> None:
    _write_bytes(path, text.encode("utf-8", NO_TEXT), made)


def _write_bytes(path: Path, content: bytes, made: list[Path]) -> None:
    with path.open("xb") as stream:
        made.append(path)
        stream.write(content)


def _free_name(path: Path) -> Path:
    number = 0
    while (backup := path.with_name(f"{path.name}.bak{number or ''}")).exists():
        number += 1
    return backup


def _replace(path: Path, migration: Migration) -> None:
    def prove(draft: Path) -> None:
        if verify(migration, draft) != migration.checked:
            raise UsageError(
                f"{path} was not written: compiled from disk it gives other values than before",
                "Did a base change meanwhile? Run the command once more.",
            )

    take_place(path, migration.text, suffix=".yaml", prove=prove)
