"""What an upgrade of vLLM or vLLM-Omni changes for profiles, told by the exported data of two releases.

Profiles are compiled once, as the shipped deploy language has them; then each setting is held against what the two
releases say of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Protocol

from omnicfg.catalog.paths import schemas_dir
from omnicfg.compiler import ProfileName, compile_profile, load, pipeline_of
from omnicfg.diagnostics import Diagnostic
from omnicfg.errors import ResolveError, UsageError
from omnicfg.near import did_you_mean
from omnicfg.passes.pipeline import guess_pipeline
from omnicfg.plan import Plan
from omnicfg.secrets import redacted
from omnicfg.tree import Mark

Kind = Literal["removed", "renamed", "refused", "accepted", "default", "deprecated", "read", "topology", "pipeline"]
# The worst first: what no longer works, what works differently, what is merely worth knowing.
KINDS: Final[dict[Kind, str]] = {
    "pipeline": "the pipeline is gone",
    "removed": "no longer exists",
    "renamed": "has another name",
    "refused": "the value is no longer taken",
    "default": "unset here, and the default changes",
    "topology": "the pipeline's own value changes",
    "read": "nothing read it before",
    "accepted": "the value was not taken before",
    "deprecated": "is deprecated",
}


class Effect(NamedTuple):
    """What an upgrade does to one setting of a stage (``None``: of the profile) and where that is written, if it is."""

    kind: Kind
    stage_id: int | None
    key: str
    before: Any = None
    after: Any = None
    mark: Mark | None = None


@dataclass(frozen=True)
class ProfileEffects:
    """What an upgrade does to a profile; each effect with the platforms that it holds on."""

    profile: str
    effects: tuple[tuple[Effect, tuple[str, ...]], ...]
    reasons: tuple[Diagnostic, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {
            "profile": self.profile,
            "effects": [_effect_dict(effect, platforms) for effect, platforms in self.effects],
            "reasons": [reason.to_dict() for reason in self.reasons],
        }


@dataclass(frozen=True)
class Upgrade:
    """The profiles that an upgrade changes something for, those that do not compile at all, and what is new."""

    product: str
    before: str
    after: str
    profiles: tuple[ProfileEffects, ...]
    checked: int
    added: tuple[str, ...]

    @property
    def differs(self) -> bool:
        return any(each.effects for each in self.profiles)

    def to_dict(self) -> dict[str, Any]:
        return {
            "product": self.product,
            "before": self.before,
            "after": self.after,
            "checked": self.checked,
            "profiles": [each.to_dict() for each in self.profiles],
            "added": list(self.added),
        }


def _effect_dict(effect: Effect, platforms: Sequence[str]) -> dict[str, Any]:
    shown = {"before": redacted(effect.key, effect.before), "after": redacted(effect.key, effect.after)}
    place = None if effect.mark is None else str(effect.mark)
    return {"platforms": list(platforms), **effect._asdict(), **shown, "mark": place}


def upgrade(
    product: str, before: str, after: str, profiles: Iterable[ProfileName], platforms: Sequence[str]
) -> Upgrade:
    """Hold profiles against two releases whose data are shipped. Raises :class:`UsageError` for others."""
    for version in (before, after):
        _require(product, version)
    releases = _releases(product, before, after)
    found = [_effects(profile, platforms, releases.effects) for profile in profiles]
    changed = tuple(each for each in found if each.effects or each.reasons)
    return Upgrade(product, before, after, changed, len(found), releases.added)


class Releases(Protocol):
    """Two releases of a product: what is new in the later one, and what it changes for a plan."""

    added: tuple[str, ...]

    def effects(self, plan: Plan) -> Iterator[Effect]: ...


def _releases(product: str, before: str, after: str) -> Releases:
    if product == "vllm":
        from omnicfg.upgrade import vllm

        return vllm.Releases(before, after)
    from omnicfg.upgrade import vllm_omni

    return vllm_omni.Releases(before, after)


def versions_of(product: str) -> tuple[str, ...]:
    """The releases of a product whose data are shipped, oldest first."""
    if product == "vllm":
        from omnicfg.catalog.vllm_args import vllm_versions

        return vllm_versions()
    folders = (path.parent.name for path in (schemas_dir() / product).glob("*/deploy.json"))
    return tuple(sorted(folders, key=release_key))


def release_key(version: str) -> tuple[tuple[int, ...], bool, str]:
    """0.32.0rc1 comes before 0.32.0."""
    numbers, suffix = re.match(r"([\d.]*)(.*)", version).groups()  # type: ignore[union-attr]  # matches anything
    return tuple(int(part) for part in numbers.split(".") if part), not suffix, suffix


def _require(product: str, version: str) -> None:
    known = versions_of(product)
    if version not in known:
        hint = did_you_mean(version, known) or ""
        shown = f"{hint} Shipped: {', '.join(known)}.".strip()
        raise UsageError(f"the data of {product} {version} are not shipped", shown)


def _effects(
    name: ProfileName, platforms: Sequence[str], effects_of: Callable[[Plan], Iterator[Effect]]
) -> ProfileEffects:
    found: dict[str, tuple[Effect, list[str]]] = {}
    reasons: list[Diagnostic] = []
    refused = 0
    for platform in platforms:
        try:
            plan = _plan(name, platform)
        except ResolveError as error:
            reasons += error.diagnostics
            refused += 1
            continue
        for effect in effects_of(plan):
            found.setdefault(repr(effect), (effect, []))[1].append(platform)
    order = list(KINDS)
    grouped = sorted(found.values(), key=lambda each: (order.index(each[0].kind), each[0].stage_id or 0, each[0].key))
    told = tuple(dict.fromkeys(reasons)) if refused == len(platforms) else ()
    return ProfileEffects(str(name), tuple((effect, tuple(names)) for effect, names in grouped), told)


def _plan(name: ProfileName, platform: str) -> Plan:
    profile = load(name)
    try:
        key = pipeline_of(profile)
    except ResolveError:
        guess = guess_pipeline(Path(profile.path))
        if guess is None:
            raise
        key = guess
    return compile_profile(profile, platform, key)
