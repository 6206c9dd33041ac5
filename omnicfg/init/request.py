"""What a first file is to be: asked of a person, or said by options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omnicfg.buffers import identity
from omnicfg.compiler import Profile, compile_profile, load, pipeline_of
from omnicfg.errors import UsageError
from omnicfg.passes.override import Override, document_of
from omnicfg.plan import Plan
from omnicfg.tree import plain


@dataclass(frozen=True)
class Request:
    """What to write: on top of ``base``, or for ``pipeline`` alone; ``settings`` are plain keys of a profile.

    ``top`` and ``stages`` hold the settings that are to take effect, by key, and by stage id and key.
    """

    path: Path
    platform: str
    pipeline: str
    base: Profile | None = None
    top: Mapping[str, Any] = field(default_factory=dict)
    stages: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)

    def plan(self) -> Plan | None:
        """The plan of what is already there, on the platform; ``None`` where nothing is."""
        return None if self.base is None else compile_profile(self.base, self.platform, self.pipeline)


def on_profile(
    path: Path, name: str, platform: str, overrides: Sequence[Override], asked: str | None = None
) -> Request:
    """An overlay; ``asked`` is the pipeline of a profile that names none, which the overlay names then.

    Raises :class:`~omnicfg.errors.OmnicfgError` for a profile that cannot be compiled there.
    """
    base = load(name)
    if any(identity(path) == identity(each) for each in base.chain.paths.values()):
        raise UsageError(f"`{path}` is what the overlay is to lie on", "Name another file.")
    pipeline = pipeline_of(base, asked, overrides)
    named = base.raw.value("pipeline")
    if named not in (None, pipeline):
        option = "--set pipeline" if asked is None else "--pipeline"
        raise UsageError(f"`{name}` is a profile of pipeline {named}, not of {pipeline}", f"Leave `{option}` out.")
    compile_profile(base, platform, pipeline, overrides)
    top, stages = settings_of(overrides)
    return Request(
        path, platform, pipeline, base, top if asked in (None, named) else {"pipeline": asked, **top}, stages
    )


def for_pipeline(path: Path, pipeline: str, platform: str, overrides: Sequence[Override]) -> Request:
    """A profile of one's own."""
    return Request(path, platform, pipeline, None, *settings_of(overrides))


def settings_of(overrides: Sequence[Override]) -> tuple[dict[str, Any], dict[int, dict[str, Any]]]:
    """``stages.0.max_num_seqs=8`` as a profile has it: the keys of the top, and those of each stage."""
    top: dict[str, Any] = {}
    stages: dict[int, dict[str, Any]] = {}
    for override in overrides:
        said = plain(document_of(override))
        for entry in said.pop("stages", ()):
            _merge(stages.setdefault(entry.pop("stage_id"), {}), entry)
        _merge(top, said)
    return top, stages


def _merge(into: dict[str, Any], said: Mapping[str, Any]) -> None:
    for key, value in said.items():
        if isinstance(into.get(key), dict) and isinstance(value, dict):
            _merge(into[key], value)
        else:
            into[key] = value
