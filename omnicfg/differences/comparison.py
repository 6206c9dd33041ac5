"""Two profiles on several platforms: equal changes brought together, and what no longer compiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from omnicfg.diagnostics import Diagnostic
from omnicfg.differences.compare import Change, diff, same
from omnicfg.errors import ResolveError
from omnicfg.evidence import CAPABILITY_OF, entry_on
from omnicfg.plan import Plan, StagePlan
from omnicfg.resources.costs import TOKEN_SIZE, measured, token_size
from omnicfg.rule import prefix_caching

Compile = Callable[[str], Plan]
"""A platform's name → the plan; raises :class:`ResolveError`."""

_CACHE_KEY = "enable_prefix_caching"


class Known(NamedTuple):
    """What is known of a new value.

    ``verdict`` is the record's (``validated``, ``unvalidated``, ``broken``, ``no-benefit``), ``refused`` where the
    record refuses it, or ``off`` for what is switched off; ``evidence`` and ``source`` are the record's, ``cost`` what
    it costs where that was measured or a model directory tells. ``None``: nothing is known.
    """

    verdict: str | None = None
    evidence: str | None = None
    source: str | None = None
    cost: str | None = None


NOTHING: Final = Known()


@dataclass(frozen=True)
class Grouped:
    """A change, the platforms that it holds on, and what is known of the new value."""

    change: Change
    platforms: tuple[str, ...]
    known: Known = NOTHING

    @property
    def evidence(self) -> str | None:
        """The verdict and its evidence, in one line."""
        return self.known.evidence

    def to_dict(self) -> dict[str, Any]:
        return {"platforms": list(self.platforms), **self.change.to_dict(), **self.known._asdict()}


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


def compare(before: Compile, after: Compile, platforms: Sequence[str], model: Path | None = None) -> Comparison:
    """Compile both on every platform and bring together what differs; ``model`` is a directory that tells of costs."""
    changes: list[tuple[Change, list[str], Known]] = []
    refused: dict[tuple[str, tuple[Diagnostic, ...]], list[str]] = {}
    for platform in platforms:
        old, old_reasons = _attempt(before, platform)
        new, new_reasons = _attempt(after, platform)
        if old is not None and new is not None:
            _collect(changes, diff(old, new), new, platform, model)
            continue
        side = "both" if old is None and new is None else "before" if old is None else "after"
        refused.setdefault((side, new_reasons or old_reasons), []).append(platform)
    return Comparison(
        tuple(Grouped(change, tuple(names), known) for change, names, known in changes),
        tuple(Refused(tuple(names), side, reasons) for (side, reasons), names in refused.items()),
    )


def _attempt(compiled: Compile, platform: str) -> tuple[Plan | None, tuple[Diagnostic, ...]]:
    try:
        return compiled(platform), ()
    except ResolveError as error:
        return None, error.diagnostics


def _collect(
    changes: list[tuple[Change, list[str], Known]],
    found: Sequence[Change],
    after: Plan,
    platform: str,
    model: Path | None,
) -> None:
    """Add the changes of one platform to those that are equal on others (origins may differ)."""
    for change in found:
        known = _known(change, after, model)
        for other, names, known_of_other in changes:
            if known == known_of_other and _is_equal(change, other):
                names.append(platform)
                break
        else:
            changes.append((change, [platform], known))


def _is_equal(a: Change, b: Change) -> bool:
    return (
        (a.stage_id, a.key, a.kind) == (b.stage_id, b.key, b.kind)
        and same(a.before, b.before)
        and same(a.after, b.after)
    )


def _known(change: Change, after: Plan, model: Path | None) -> Known:
    """What is known of the new value of a stage's setting."""
    stage = None if change.stage_id is None else after.stage(change.stage_id)
    if stage is None:
        return NOTHING
    capability = CAPABILITY_OF.get(change.key)
    entry = None if capability is None else entry_on(after, stage, capability)
    counts = model is not None and (change.key in TOKEN_SIZE or (change.key == _CACHE_KEY and prefix_caching(stage)))
    cost = token_size(after, stage, model) if model is not None and counts else None
    if entry is None:
        return Known(cost=cost)
    verdict = "refused" if entry.get("refuse") else str(entry["verdict"])
    source = " ".join(entry["source"].split())
    if not _is_on(change, stage):
        return Known("off", f"off; turned on it would be {entry['verdict']}", source)
    told = f"{entry['verdict']}: {' '.join(entry['evidence'].split())}"
    return Known(verdict, told, source, "; ".join(text for text in (measured(entry), cost) if text) or None)


def _is_on(change: Change, stage: StagePlan) -> bool:
    """Whether the new value switches on what the record speaks of."""
    if change.key == _CACHE_KEY:
        return prefix_caching(stage)
    value = stage.arg(change.key)
    return value == "duplex" if change.key == "session_mode" else bool(value)
