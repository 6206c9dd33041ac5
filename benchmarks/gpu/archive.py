"""A folder as one file, written whole again and again: what is measured outlives the machine it was measured on."""

from __future__ import annotations

import contextlib
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

EVERY_S: Final = 45.0
_LEFT_OUT: Final = frozenset({"models", "scratch", "site"})
_SUFFIXES: Final = frozenset({".json", ".log", ".txt", ".csv", ".report", ".md", ".png", ".svg"})


@contextlib.contextmanager
def kept(folder: Path, archive: Path | None) -> Iterator[None]:
    """Unpack the archive where files are missing; write it every 45 seconds, and at the end."""
    if archive is None:
        yield
        return
    if archive.is_file():
        unpack(archive, folder)
    done = threading.Event()

    def save() -> None:
        while not done.wait(EVERY_S):
            pack(folder, archive)

    saver = threading.Thread(target=save, daemon=True)
    saver.start()
    try:
        yield
    finally:
        done.set()
        saver.join()
        pack(folder, archive)


def unpack(archive: Path, folder: Path) -> None:
    """Take out the files that are not there yet, none of them beside ``folder``.

    Raises :class:`tarfile.TarError` for another kind of file.
    """
    with tarfile.open(archive) as packed:
        for member in packed:
            place, content = folder / member.name, packed.extractfile(member) if member.isfile() else None
            if content is not None and not place.exists() and place.resolve().is_relative_to(folder.resolve()):
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(content.read())


def pack(folder: Path, archive: Path) -> None:
    """All results and logs; no models, and nothing that a part can make again."""
    half = archive.with_name(f"{archive.name}.half")
    with tarfile.open(half, "w:gz") as packed:
        for file in sorted(folder.rglob("*")):
            inside = file.relative_to(folder)
            if file.suffix in _SUFFIXES and file.is_file() and not _LEFT_OUT & set(inside.parts[:-1]):
                with contextlib.suppress(FileNotFoundError):  # a part has put it away meanwhile
                    packed.add(file, inside.as_posix())
    half.replace(archive)
