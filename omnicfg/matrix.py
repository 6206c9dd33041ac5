"""The prefix-cache scope: for each model, profile, platform and stage, what takes effect, and what is known of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from omnicfg.catalog.capabilities import record_of
from omnicfg.catalog.library import library
from omnicfg.compiler import compile_profile, load, pipeline_of
from omnicfg.errors import ResolveError
from omnicfg.evidence import entry_on
from omnicfg.passes.effective import default_of
from omnicfg.plan import Plan, StagePlan
from omnicfg.tree import plain

_KEY: Final = "enable_prefix_caching"


@dataclass(frozen=True)
class Cell:
    """One stage of a profile on some platforms on which everything about its prefix cache is the same.

    ``on`` is ``None`` where the cache does not apply (diffusion), where vLLM decides by the model, or where the
    profile does not compile; ``by`` says which, or who set the value. ``verdict`` and what follows are of the model's
    record and speak of turning the cache on; they are ``None`` where nothing is recorded.
    """

    model: str
    profile: str
    platforms: tuple[str, ...]
    stage_id: int
    model_stage: str
    on: bool | None
    by: str
    verdict: str | None
    evidence: str | None
    source: str | None

    @property
    def value(self) -> str:
        """``on``, ``off`` or ``-``."""
        return "-" if self.on is None else "on" if self.on else "off"

    def to_dict(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "profile": self.profile,
            "platforms": list(self.platforms),
            "stage_id": self.stage_id,
            "model_stage": self.model_stage,
            "prefix_caching": self.on,
            "set_by": self.by,
            "verdict": self.verdict,
            "evidence": self.evidence,
            "source": self.source,
        }


@dataclass(frozen=True)
class Refused:
    """A profile that does not compile on some platforms."""

    model: str
    profile: str
    platforms: tuple[str, ...]
    reason: str

    def to_dict(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "profile": self.profile,
            "platforms": list(self.platforms),
            "reason": self.reason,
        }


def matrix(platforms: Sequence[str], profiles: Iterable[str] | None = None) -> tuple[list[Cell], list[Refused]]:
    """The scope of the named profiles (all shipped ones) on ``platforms``, model by model."""
    cells: list[Cell] = []
    refused: list[Refused] = []
    for name in library() if profiles is None else profiles:
        loaded = load(name)
        key = pipeline_of(loaded)
        record = record_of(key)
        model = record["title"] if record else key
        plans: dict[str, Plan] = {}
        reasons: dict[str, list[str]] = {}
        for platform in platforms:
            try:
                plans[platform] = compile_profile(loaded, platform, key)
            except ResolveError as error:
                reasons.setdefault(error.diagnostics[0].message, []).append(platform)
        cells += _cells(model, name, plans)
        refused += [Refused(model, name, tuple(names), reason) for reason, names in reasons.items()]
    cells.sort(key=lambda cell: cell.model)
    return cells, refused


def _cells(model: str, profile: str, plans: dict[str, Plan]) -> Iterator[Cell]:
    """The stages of a profile, in their order, platforms with the same outcome together."""
    outcomes: dict[tuple[Any, ...], list[str]] = {}
    for platform, plan in plans.items():
        for stage in plan.stages:
            outcome = (stage.stage_id, stage.model_stage, *_value(plan, stage), *_known(plan, stage))
            outcomes.setdefault(outcome, []).append(platform)
    for outcome in sorted(outcomes, key=lambda outcome: int(outcome[0])):
        yield Cell(model, profile, tuple(outcomes[outcome]), *outcome)


def _value(plan: Plan, stage: StagePlan) -> tuple[bool | None, str]:
    """Whether a stage's cache is on as it takes effect, and who says so."""
    if stage.stage_type == "diffusion":
        return None, "not a stage of vLLM"
    node = stage.engine_args.items.get(_KEY)
    if node is not None and plain(node) is not None:
        return bool(plain(node)), str(node.layer.kind.value)
    default = default_of(_KEY, stage, plan.platform)
    return plain(default), f"vLLM {default.layer.name} default"


def _known(plan: Plan, stage: StagePlan) -> tuple[str | None, str | None, str | None]:
    entry = entry_on(plan, stage, "prefix_caching")
    if entry is None:
        return None, None, None
    return entry["verdict"], " ".join(entry["evidence"].split()), " ".join(entry["source"].split())
