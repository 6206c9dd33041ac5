"""Pass 4: what a migrated profile may build on."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Final, NamedTuple

from omnicfg.catalog.library import find_profile, library
from omnicfg.catalog.upstream import default_deploy_files
from omnicfg.compiler import Profile, load_file
from omnicfg.errors import OmnicfgError, UsageError
from omnicfg.tree import Layer, LayerKind, Mapping, without_history


class Base(NamedTuple):
    """A base: the file, how ``base_config`` names it, and its loaded profile; none of these where there is no base.

    ``copy`` says that the file has to be copied below the new profile's folder, because it lies outside the project.
    """

    name: str
    reference: str | None
    profile: Profile | None
    copy: bool = False

    @property
    def raw(self) -> Mapping | None:
        return None if self.profile is None else self.profile.raw

    @property
    def files(self) -> list[Path]:
        """The base's own file, and those that it is built on."""
        return [] if self.profile is None else list(self.profile.chain.paths.values())


NO_BASE: Final = Base("no base", None, None)
COPIES: Final = "bases"  # the folder beside a new profile that shipped profiles are copied to


def bases_for(pipeline: str, directory: Path, asked: str | None = None) -> list[Base]:
    """The bases to choose from: the one asked for, or every shipped profile of the pipeline (possibly none)."""
    if asked is not None:
        path, shown = find_profile(asked)
        return [_base(load_file(path, shown), directory, shipped=path in library().values())]
    return [_base(profile, directory, shipped=True) for profile in _shipped(pipeline)]


@functools.cache
def _shipped(pipeline: str) -> tuple[Profile, ...]:
    found = []
    for path in library().values():
        try:
            profile = load_file(path, path.name)
        except OmnicfgError:
            continue
        named = profile.raw.value("pipeline")
        key = named if isinstance(named, str) else default_deploy_files().get(path.name)
        if key == pipeline:
            found.append(profile)
    return tuple(found)


def _below(profile: Profile) -> Profile:
    """The profile with its own values labelled as those of a base."""
    raw = without_history(profile.raw, _as_base)
    assert isinstance(raw, Mapping)
    return profile._replace(raw=raw)


def _as_base(layer: Layer) -> Layer:
    return Layer(LayerKind.BASE, layer.name) if layer.kind is LayerKind.PROFILE else layer


def _base(loaded: Profile, directory: Path, *, shipped: bool) -> Base:
    path = Path(os.path.abspath(loaded.path))  # noqa: PTH100  # a symlink is not resolved: bases are named as written
    where = Path(os.path.abspath(directory))  # noqa: PTH100
    copied = shipped and not same_project(path, where)
    reference = f"{COPIES}/{path.name}" if copied else Path(os.path.relpath(path, where)).as_posix()
    return Base(path.stem, reference, _below(load_file(path, reference)), copy=copied)


def same_project(path: Path, directory: Path) -> bool:
    """Whether a path relative to the directory holds wherever the project is checked out."""
    root = next((place for place in (directory, *directory.parents) if (place / ".git").exists()), directory)
    return path.is_relative_to(root)


def copies(base: Base, directory: Path) -> dict[Path, str]:
    """The files to copy for a base that lies elsewhere: it, and what it is built on itself, by their new places.

    Raises :class:`UsageError` where another file lies in such a place already.
    """
    if not base.copy or base.profile is None:
        return {}
    texts: dict[Path, str] = {}
    for document in base.profile.chain.documents:
        source = base.profile.path.parent / Path(document.mark.file).name
        target = directory / COPIES / source.name
        text = source.read_text(encoding="utf-8")
        if not target.exists():
            texts[target] = text
        elif target.read_text(encoding="utf-8") != text:
            raise UsageError(
                f"{target} is another file than the shipped profile `{source.stem}` that is to be copied there",
                "Name the base with `--base FILE`, or write the new profile into another directory.",
            )
    return texts
