"""Wires the passes: a profile on disk → a :class:`~omnicfg.plan.Plan`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from omnicfg.catalog.library import find_profile
from omnicfg.catalog.upstream import deploy_schema
from omnicfg.errors import UsageError
from omnicfg.near import did_you_mean
from omnicfg.passes.deploy import deploy
from omnicfg.passes.engine_args import engine_args
from omnicfg.passes.inherit import Chain, inherit
from omnicfg.passes.pipeline import find_pipeline, known_pipeline
from omnicfg.passes.platform import apply_platform
from omnicfg.passes.topology import apply_topology
from omnicfg.plan import Plan
from omnicfg.refusals import refuse
from omnicfg.tree import Mapping as Tree
from omnicfg.tree import Mark, plain

if TYPE_CHECKING:
    from omnicfg.diagnostics import Diagnostic
    from omnicfg.passes.override import Override

ProfileName = str | os.PathLike[str]


class Profile(NamedTuple):
    """A profile read from disk, before a platform is chosen; shared by all platforms it is compiled for."""

    shown: str
    path: Path
    raw: Tree
    chain: Chain
    deploy: Tree


def names_of(given: ProfileName | Iterable[ProfileName]) -> list[ProfileName]:
    """One name or several, as a list."""
    return [given] if isinstance(given, str | os.PathLike) else list(given)


def load(profile: ProfileName, overlays: ProfileName | Iterable[ProfileName] = ()) -> Profile:
    """Read a profile, its bases and overlays. Raises :class:`~omnicfg.errors.OmnicfgError`."""
    path, shown = find_profile(profile if isinstance(profile, str) else Path(profile))
    return load_file(path, shown, overlays)


def load_file(path: Path, shown: str, overlays: ProfileName | Iterable[ProfileName] = ()) -> Profile:
    """Read the profile at ``path``, called ``shown`` wherever it is named, with its bases and overlays."""
    raw, chain = read_chain(path, shown, overlays)
    return Profile(shown, path, raw, chain, deploy(raw))


def read_chain(
    path: Path,
    shown: str,
    overlays: ProfileName | Iterable[ProfileName] = (),
    found: list[Diagnostic] | None = None,
) -> tuple[Tree, Chain]:
    """What the files of a profile say together, and the files; whether it makes sense has not been looked at.

    Where ``found`` is given, every refusal comes there, and what can be read is read all the same.
    """
    return inherit(path, shown, [find_profile(Path(overlay))[0] for overlay in names_of(overlays)], found)


def compile_profile(profile: Profile, platform: str, pipeline: str, overrides: Iterable[Override] = ()) -> Plan:
    """The plan of a loaded profile on one platform."""
    tree = deployed(profile, platform, overrides)
    joined = apply_topology(tree, pipeline, platform)
    plan = engine_args(joined, profile=profile.shown, platform=platform, pipeline=pipeline)
    return Plan(plan, stage_marks(tree))


def deployed(profile: Profile, platform: str, overrides: Iterable[Override] = ()) -> Tree:
    """The deploy tree that a plan is made from; stage settings of null are still in it."""
    tree = apply_platform(profile.deploy, platform)
    given = list(overrides)
    if not given:
        return tree
    from omnicfg.passes.override import apply_overrides

    return apply_overrides(tree, given)


def parsed_overrides(overrides: Mapping[str, Any] | Iterable[str] | None) -> list[Override]:
    """Overrides as :func:`resolve` takes them; the pass is imported only where there are any."""
    if not overrides:
        return []
    from omnicfg.passes.override import parse_overrides

    return parse_overrides(overrides)


def stage_marks(tree: Tree) -> dict[int, Mark]:
    """Where each stage of a deploy tree is written: the place of its `stage_id`."""
    return {
        stage.value("stage_id"): stage.items["stage_id"].mark
        for stage in tree.sequence("stages").mappings()
        if isinstance(stage.value("stage_id"), int)
    }


def resolve(
    profile: ProfileName,
    *,
    platform: str = "cuda",
    pipeline: str | None = None,
    overlays: ProfileName | Iterable[ProfileName] = (),
    overrides: Mapping[str, Any] | Iterable[str] | None = None,
) -> Plan:
    """Compile ``profile`` (a path or the name of a shipped profile) to the final engine args of every stage.

    ``overlays`` are files that go on top in order; ``overrides`` are ``{"stages.0.max_num_seqs": 8}`` or
    ``["stages.0.max_num_seqs=8"]`` and win over every file. Raises :class:`~omnicfg.errors.OmnicfgError`, which
    carries its diagnostics, where the profile cannot be compiled.
    """
    check_platform(platform)
    loaded = load(profile, overlays)
    parsed = parsed_overrides(overrides)
    return compile_profile(loaded, platform, pipeline_of(loaded, pipeline, parsed), parsed)


def pipeline_of(
    profile: Profile, pipeline: str | None = None, overrides: Iterable[Override] = (), model: Path | None = None
) -> str:
    """The key of the pipeline that the profile configures."""
    asked = [override.node for override in overrides if override.route == ("pipeline",)]
    if asked and pipeline not in (None, plain(asked[-1])):
        refuse("bad-override", asked[-1].mark, f"pipeline `{pipeline}` is asked for already", "Ask for one.")
    if asked:
        return known_pipeline(plain(asked[-1]), asked[-1].mark)
    return find_pipeline(profile.raw, profile.path, profile.chain, pipeline, model)


def check_platform(platform: str) -> None:
    """Raises :class:`UsageError` for a platform that the deploy language does not have."""
    known = deploy_schema().platforms
    if platform not in known:
        hint = did_you_mean(str(platform), known) or f"Platforms: {', '.join(known)}."
        raise UsageError(f"unknown platform `{platform}`", hint)
