"""What has been measured, on disk: one JSON file a measurement, written whole, so that an interrupted run resumes.

Several calls may measure into one folder at the same time, each on a device of its own: what they share is changed by
one of them at a time.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import weakref
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

from omnicfg.bench.form import problem, read_json
from omnicfg.errors import UsageError
from omnicfg.files import make_directory, write_whole
from omnicfg.report.json import dumps

VERSION: Final = 1
_SETUP: Final = "setup.json"
_MEASURED: Final = "measurements"
_OURS: Final = frozenset({"equality.json", "logs", "scratch", _MEASURED})
"""What ``bench equality``, or a call that was killed before it had written the setup, may have left in the folder."""


_SETUP_PARTS: Final = ("command", "profile", "pipeline", "platform", "model", "engine", "driver", "arms", "loads")
_ELSEWHERE: Final = "Name another folder with `--out`."
_OTHER: Final = "Name the folder that `bench prefix-cache --out` wrote."
_PERMISSIONS: Final = "Check its permissions."
_AGAIN: Final = "Delete it, and it is measured again."


class Store:
    """A folder of measurements, and ``own``: what those of this call are made with."""

    def __init__(self, folder: Path, own: Mapping[str, Any], use: _Use | None = None) -> None:
        self.folder = folder
        self._own = own
        self._use = use

    @classmethod
    def joined(cls, folder: Path, setup: Mapping[str, Any]) -> Self:
        """The folder, for more measurements. Arms and loads may be new; those that are there have to be the same.

        Raises :class:`UsageError` for a folder of something else.
        """
        path = folder / _SETUP
        make_directory(folder)
        with _alone(folder):
            if not cls.is_in(folder) and not _is_new(folder):
                raise UsageError(f"`{folder}` holds something else", "Name a new folder with `--out`.")
            for name in (_MEASURED, "logs", "scratch"):
                make_directory(folder / name)
            use = _Use(folder / _MEASURED)
            before = _read_setup(path) if cls.is_in(folder) else setup
            if use.is_only_one:
                before = _with_unmeasured_as(before, setup, cls(folder, before).measurements())
            merged = _merged(before, setup, folder)
            _check_apart(merged)
            write_whole(path, dumps(merged))
            use.share()
        return cls(folder, merged, use)

    @classmethod
    def of(cls, folder: Path) -> Self:
        """The store that a folder holds. Raises :class:`UsageError` where it holds none."""
        if not cls.is_in(folder):
            raise _no_store(folder)
        return cls(folder, _read_setup(folder / _SETUP, _OTHER))

    @classmethod
    def is_in(cls, folder: Path) -> bool:
        """Whether a folder holds one."""
        return (folder / _SETUP).is_file()

    @property
    def setup(self) -> dict[str, Any]:
        """What the measurements of the folder were made with, those of other calls included."""
        return _merged(_read_setup(self.folder / _SETUP), self._own, self.folder)

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
        """All measurements, by round, arm and load. Raises :class:`UsageError` for a file that is none."""
        folder = self.folder / _MEASURED
        try:
            # pathlib's glob finds nothing where it may not look.
            paths = [path for path in folder.iterdir() if path.suffix == ".json"] if folder.is_dir() else []
        except OSError as error:
            raise UsageError(f"`{folder}` cannot be read: {error.strerror}", _PERMISSIONS) from None
        found = [self._measurement(path) for path in paths]
        return sorted(found, key=lambda one: (one["round"], one["arm"], one["load"]))

    def _measurement(self, path: Path) -> dict[str, Any]:
        one = _read(path)
        wrong = problem(one, "properties", "measurements", "items")
        if wrong is None and self._path(one["round"], one["arm"], one["load"]).name != path.name:
            wrong = f"it is of round {one['round']}, arm {one['arm']}, load {one['load']}, and named otherwise"
        if wrong is not None:
            raise UsageError(f"`{path}` is no measurement: {wrong}", _AGAIN)
        return one

    def _path(self, round_: int, arm: str, load: str) -> Path:
        return self.folder / _MEASURED / f"{round_}-{arm}-{load}.json"


def refuse_inside(folder: Path) -> None:
    """Raises :class:`UsageError` for the folder in which a store has its measurements: whatever is there is read."""
    whole = folder.resolve()
    if whole.name == _MEASURED and Store.is_in(whole.parent):
        raise UsageError(f"`{folder}` is where measurements are kept, one a file", _ELSEWHERE)


def _no_store(folder: Path) -> UsageError:
    """What there is instead of one."""
    if not folder.exists():
        return UsageError(f"`{folder}` is not there", _OTHER)
    if (folder / _MEASURED).is_dir():
        problem = f"`{folder}` holds measurements without their {_SETUP}, which says what they are of"
        return UsageError(problem, "Bring the whole folder that `bench prefix-cache --out` wrote.")
    return UsageError(f"`{folder}` holds no measurements", _OTHER)


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
            _ELSEWHERE,
        )
    return {**before, **now, **{name: {**before[name], **now[name]} for name in ("arms", "loads")}}


def _check_apart(setup: Mapping[str, Any]) -> None:
    """Raises :class:`UsageError` where two measurements would be one file: names of arms and loads may have a ``-``."""
    pairs: dict[str, tuple[str, str]] = {}
    for pair in itertools.product(setup["arms"], setup["loads"]):
        other = pairs.setdefault("-".join(pair), pair)
        if other != pair:
            raise UsageError(
                f"arm `{other[0]}` with load `{other[1]}` and arm `{pair[0]}` with load `{pair[1]}` "
                "would be kept in one file",
                "Give one of the arms another name.",
            )


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for name, value in now.items():
        if name == "command":
            continue
        if name in ("arms", "loads"):
            shared = before[name].keys() & value.keys()
            yield from (f"{name[:-1]} {one}" for one in sorted(shared) if before[name][one] != value[one])
        elif before.get(name) != value:
            yield name


def _is_new(folder: Path) -> bool:
    """Whether nothing is in a folder, or no more than a call leaves there that was ended at its very beginning."""
    others = [one.name for one in folder.iterdir() if one.name not in _OURS and not one.name.startswith(f".{_SETUP}.")]
    return not others and not any((folder / _MEASURED).glob("*"))


class _Use:
    """That a call measures into a folder, as others see it: a lock that goes with its process, or with the object."""

    def __init__(self, folder: Path) -> None:
        import fcntl

        self._held = os.open(folder, os.O_RDONLY)
        weakref.finalize(self, os.close, self._held)
        self.is_only_one = True
        try:
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.is_only_one = False

    def share(self) -> None:
        """From now on others may measure here too."""
        import fcntl

        fcntl.flock(self._held, fcntl.LOCK_SH)


def _with_unmeasured_as(
    before: Mapping[str, Any], now: Mapping[str, Any], measurements: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """What a folder was meant for; arms and loads that have no measurement yet are taken from ``now``.

    So a server that did not start under its plan may be given another one.
    """
    if not measurements:
        return dict(now)
    kept = dict(before)
    for group, name in (("arms", "arm"), ("loads", "load")):
        measured = {one[name] for one in measurements}
        kept[group] = {
            key: value if key in measured else now[group].get(key, value) for key, value in before[group].items()
        }
    return kept


def _read_setup(path: Path, help: str = _ELSEWHERE) -> dict[str, Any]:
    setup = _read(path, "setup", help)
    wrong = next(filter(None, _wrong_parts(setup)), None)
    if wrong is not None:
        raise UsageError(f"`{path}` is not what `omnicfg bench` writes: {wrong}", help)
    return setup


def _wrong_parts(setup: Mapping[str, Any]) -> Iterator[str | None]:
    missing = [name for name in _SETUP_PARTS if name not in setup]
    yield f"it has no {', '.join(missing)}" if missing else None
    for name in _SETUP_PARTS[:-1]:
        wrong = problem(setup[name], "properties", name)
        yield wrong and wrong.replace("it ", f"`{name}` ", 1)
    loads = setup["loads"] if isinstance(setup["loads"], dict) else {}
    yield None if loads else "it has no loads"
    for name, load in loads.items():
        row = {**load, "arms": {}} if isinstance(load, dict) else load
        wrong = problem(row, "properties", "loads", "items")
        yield wrong and f"load {name}: {wrong}"
    yield None if setup["arms"] else "it has no arms"


def _read(path: Path, what: str = "measurement", help: str = _AGAIN) -> dict[str, Any]:
    try:
        document = read_json(path, path.read_bytes(), help)
    except PermissionError as error:
        raise UsageError(f"`{path}` cannot be read: {error.strerror}", _PERMISSIONS) from None
    except OSError:
        raise UsageError(f"`{path}` cannot be read as a {what}", help) from None
    if not isinstance(document, dict):
        raise UsageError(f"`{path}` holds no {what}", help)
    return document
