"""Two profiles on several platforms: equal changes brought together, and what no longer compiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from omnicfg.compare import Change, diff, same
from omnicfg.diagnostics import Diagnostic
from omnicfg.errors import ResolveError
from omnicfg.evidence import entry_on
from omnicfg.plan import Plan
from omnicfg.rule import prefix_caching

Compile = Callable[[str], Plan]
"""A platform's name → the plan; raises :class:`ResolveError`."""

_CACHE_KEY = "enable_prefix_caching"


@dataclass(frozen=True)
class Grouped:
    """A change and the platforms that it holds on; ``evidence`` is what the model's record says of the new value."""

    change: Change
    platforms: tuple[str, ...]
    evidence: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return {"platforms": list(self.platforms), **self.change.to_dict(), "evidence": self.evidence}


@dataclass(frozen=True)
class Refused:
    """Why one of the two does not compile on some platforms, and whether it did before (or does now)."""

    platforms: tuple[str, ...]
    side: str
    diagnostics: tuple[Diagnostic, ...]

    def to_dict(self) -> dict[str, Any]:
        reasons = [diagnostic.to_dict() for diagnostic in self.diagnostics]
        return {"platforms": list(self.platforms), "side": self.side, "diagnostics": reasons}


@dataclass(frozen=True)
class Comparison:
    """What differs between two profiles.

    ``refused`` holds the platforms on which only one of the two compiles (``side`` is ``before`` or ``after``: the
    one that does not) or neither (``both``, which counts as no difference).
    """

    changes: tuple[Grouped, ...]
    refused: tuple[Refused, ...]

    @property
    def differs(self) -> bool:
        return bool(self.changes) or any(refused.side != "both" for refused in self.refused)

    def compiles_nowhere(self, platforms: Sequence[str], side: str) -> bool:
        """Whether one side is refused on every platform."""
        refused = {name for each in self.refused if each.side in (side, "both") for name in each.platforms}
        return set(platforms) <= refused


def compare(before: Compile, after: Compile, platforms: Sequence[str]) -> Comparison:
    """Compile both on every platform and bring together what differs."""
    changes: list[tuple[Change, list[str], str | None]] = []
    refused: dict[tuple[str, tuple[Diagnostic, ...]], list[str]] = {}
    for platform in platforms:
        old, old_reasons = _attempt(before, platform)
        new, new_reasons = _attempt(after, platform)
        if old is not None and new is not None:
            _collect(changes, diff(old, new), new, platform)
            continue
        side = "both" if old is None and new is None else "before" if old is None else "after"
        refused.setdefault((side, new_reasons or old_reasons), []).append(platform)
    return Comparison(
        tuple(Grouped(change, tuple(names), evidence) for change, names, evidence in changes),
        tuple(Refused(tuple(names), side, reasons) for (side, reasons), names in refused.items()),
    )


def _attempt(compiled: Compile, platform: str) -> tuple[Plan | None, tuple[Diagnostic, ...]]:
    try:
        return compiled(platform), ()
    except ResolveError as error:
        return None, error.diagnostics


def _collect(
    changes: list[tuple[Change, list[str], str | None]], found: Sequence[Change], after: Plan, platform: str
) -> None:
    """Add the changes of one platform to those that are equal on others (origins may differ)."""
    for change in found:
        evidence = _evidence(change, after)
        for known, names, known_evidence in changes:
            if evidence == known_evidence and _is_equal(change, known):
                names.append(platform)
                break
        else:
            changes.append((change, [platform], evidence))


def _is_equal(a: Change, b: Change) -> bool:
    return (
        (a.stage_id, a.key, a.kind) == (b.stage_id, b.key, b.kind)
        and same(a.before, b.before)
        and same(a.after, b.after)
    )


def _evidence(change: Change, after: Plan) -> str | None:
    """What the model's record says of a prefix cache that changed; ``None`` where it has no word on it."""
    if change.key != _CACHE_KEY or change.stage_id is None:
        return None
    stage = after.stage(change.stage_id)
    entry = None if stage is None else entry_on(after, stage, "prefix_caching")
    if stage is None or entry is None:
        return None
    if prefix_caching(stage):
        return f"{entry['verdict']}: {' '.join(entry['evidence'].split())}"
    return f"off; turned on it would be {entry['verdict']}"
