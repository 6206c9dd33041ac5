"""What has been measured, on disk: one JSON file a measurement, written whole, so that an interrupted run resumes.

Several calls may measure into one folder at the same time, each on a device of its own: what they share is changed by
one of them at a time.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Self

from omnicfg.errors import UsageError
from omnicfg.files import make_directory, write_whole
from omnicfg.report.json import dumps

VERSION: Final = 1
_SETUP: Final = "setup.json"
_MEASURED: Final = "measurements"
_OF_EQUALITY: Final = frozenset({"equality.json", "logs", "scratch"})
"""What ``bench equality`` may have put into the same folder before."""


class Store:
    """A folder of measurements, and ``own``: what those of this call are made with."""

    def __init__(self, folder: Path, own: Mapping[str, Any]) -> None:
        self.folder = folder
        self._own = own

    @classmethod
    def joined(cls, folder: Path, setup: Mapping[str, Any]) -> Self:
        """The folder, for more measurements. Arms and loads may be new; those that are there have to be the same.

        Raises :class:`UsageError` for a folder of something else.
        """
        path = folder / _SETUP
        make_directory(folder)
        with _alone(folder):
            if not path.is_file() and any(entry.name not in _OF_EQUALITY for entry in folder.iterdir()):
                raise UsageError(f"`{folder}` holds something else", "Name a new folder with `--out`.")
            for name in (_MEASURED, "logs", "scratch"):
                make_directory(folder / name)
            merged = _merged(_read(path), setup, folder) if path.is_file() else dict(setup)
            write_whole(path, dumps(merged))
        return cls(folder, merged)

    @classmethod
    def of(cls, folder: Path) -> Self:
        """The store that a folder holds. Raises :class:`UsageError` where it holds none."""
        path = folder / _SETUP
        if not path.is_file():
            raise UsageError(
                f"`{folder}` holds no measurements", "Name the folder that `bench prefix-cache --out` wrote."
            )
        setup = _read(path)
        missing = [name for name in ("profile", "pipeline", "arms", "loads") if name not in setup]
        if missing:
            raise UsageError(f"`{path}` is not what `omnicfg bench` writes: it has no {', '.join(missing)}")
        return cls(folder, setup)

    @property
    def setup(self) -> dict[str, Any]:
        """What the measurements of the folder were made with, those of other calls included."""
        return _merged(_read(self.folder / _SETUP), self._own, self.folder)

    @property
    def scratch(self) -> Path:
        """Where drivers may write on their way."""
        return self.folder / "scratch"

    def log(self, round_: int, arm: str) -> Path:
        """An empty file, where the next server of a round and an arm logs."""
        number = 1
        while (path := self.folder / "logs" / f"{round_}-{arm}-{number}.log").exists() or not _made(path):
            number += 1
        return path

    def has(self, round_: int, arm: str, load: str) -> bool:
        """Whether it has been measured."""
        return self._path(round_, arm, load).is_file()

    def keep(self, measurement: Mapping[str, Any]) -> None:
        """Write a measurement."""
        path = self._path(measurement["round"], measurement["arm"], measurement["load"])
        write_whole(path, dumps(measurement))

    def measurements(self) -> list[dict[str, Any]]:
        """All measurements, by round, arm and load."""
        found = [_read(path) for path in (self.folder / _MEASURED).glob("*.json")]
        return sorted(found, key=lambda one: (one["round"], one["arm"], one["load"]))

    def _path(self, round_: int, arm: str, load: str) -> Path:
        return self.folder / _MEASURED / f"{round_}-{arm}-{load}.json"


def _made(path: Path) -> bool:
    """Whether a file could be made that was not there."""
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """While it lasts, no other call is here; the lock goes with its process."""
    import fcntl

    held = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


def _merged(before: Mapping[str, Any], now: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    differing = list(_differences(before, now))
    if differing:
        raise UsageError(
            f"`{folder}` holds measurements of something else: {', '.join(differing)} differ",
            "Name another folder with `--out`.",
        )
    return {**before, **now, **{name: {**before[name], **now[name]} for name in ("arms", "loads")}}


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for name, value in now.items():
        if name == "command":
            continue
        if name in ("arms", "loads"):
            shared = before[name].keys() & value.keys()
            yield from (f"{name[:-1]} {one}" for one in sorted(shared) if before[name][one] != value[one])
        elif before.get(name) != value:
            yield name


def _read(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        raise UsageError(f"`{path}` cannot be read as a measurement", "Delete it, and it is measured again.") from None
    if not isinstance(document, dict):
        raise UsageError(f"`{path}` holds no measurement", "Delete it, and it is measured again.")
    return document
