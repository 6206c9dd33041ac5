"""All passes: an old file → the profile that took its place, with the proof that it means the same."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from omnicfg.check import run_rules
from omnicfg.compiler import check_platform, compile_profile, load_file, pipeline_of
from omnicfg.diagnostics import Diagnostic, Severity
from omnicfg.errors import ResolveError
from omnicfg.migrate.bases import NO_BASE, Base, bases_for
from omnicfg.migrate.facts import facts
from omnicfg.migrate.fates import outcomes
from omnicfg.migrate.old_file import OldFile
from omnicfg.migrate.outcome import Fate, Outcome, Wanted
from omnicfg.migrate.overlay import Draft, draft, holds
from omnicfg.migrate.recognise import Recognised, recognise
from omnicfg.plan import Plan
from omnicfg.rule import Subject
from omnicfg.secrets import redacted
from omnicfg.tree import LayerKind, Mapping, Node, Route, dotted, plain

if TYPE_CHECKING:
    from omnicfg.command_line.parse import CommandLine

_DERIVED: Final = ("async_chunk", "session_mode", "use_v2_model_runner", "duplex_max_sessions")
_TAKEN_APART: Final = ("connectors", "default_sampling_params", "input_connectors", "output_connectors")
_FROM_BASE: Final = (LayerKind.BASE, LayerKind.PLATFORM)


@dataclass(frozen=True, slots=True)
class Added:
    """A value that the old file left open and the base sets."""

    key: str
    value: Any
    origin: str

    def to_dict(self) -> dict[str, Any]:
        return {"key": self.key, "value": self.value, "origin": self.origin}


@dataclass(frozen=True)
class Migration:
    """A migrated file. ``checked`` and ``held`` count the values that the proof looked at and found as they were."""

    source: str
    target: str
    pipeline: str
    why: str
    base: Base
    platform: str
    text: str
    outcomes: Sequence[Outcome]
    added: Sequence[Added]
    findings: Sequence[Diagnostic]
    missing: Sequence[str]
    wanted: Sequence[Wanted] = field(repr=False)
    held: int = 0

    @property
    def losses(self) -> list[Outcome]:
        """What cannot be said today, or is decided otherwise by the topology."""
        return [outcome for outcome in self.outcomes if outcome.fate.is_loss]

    @property
    def checked(self) -> int:
        return len(self.wanted)

    @property
    def is_whole(self) -> bool:
        """Whether nothing is lost, and every value that is still there takes effect."""
        return not self.losses and self.held == self.checked

    def of(self, fate: Fate) -> list[Outcome]:
        """The outcomes of one kind, those of nothing that was written left out."""
        return [outcome for outcome in self.outcomes if outcome.fate is fate]

    def to_dict(self) -> dict[str, Any]:
        """The report as data."""
        return {
            "source": self.source,
            "target": self.target,
            "pipeline": self.pipeline,
            "recognised": self.why,
            "base_config": self.base.reference,
            "platform": self.platform,
            "settings": [outcome.to_dict() for outcome in self.outcomes],
            "added": [added.to_dict() for added in self.added],
            "missing_stages": list(self.missing),
            "proof": {"checked": self.checked, "held": self.held},
            "findings": [finding.to_dict() for finding in self.findings],
            "summary": {fate.value: len(self.of(fate)) for fate in Fate},
        }


def migrate(
    path: Path,
    *,
    target: Path | None = None,
    pipeline: str | None = None,
    platform: str | None = None,
    base: str | None = None,
    flat: bool = False,
    line: CommandLine | None = None,
) -> Migration:
    """The profile that means what the stage config at ``path`` meant, with the flags of a command beside it if any.

    ``target`` is where it will lie (beside the old file where it is not given); ``base`` names a shipped profile or a
    file to build on, ``flat`` asks for a profile without one. Nothing is written. Raises
    :class:`~omnicfg.errors.OmnicfgError` for a file that cannot be read, or that no pipeline fits.
    """
    old = OldFile(path)
    found = recognise(old, pipeline)
    place = target or path
    on = platform or _platform_of(old)
    check_platform(on)
    bases = [] if flat else bases_for(found.pipeline, place.parent, base)
    mapped = outcomes(old, found)
    if line is not None:
        from omnicfg.migrate.command import old_flags

        mapped += old_flags(line, mapped, found.pipeline)
    chosen = _thinnest(old, found, mapped, bases, on, str(place))
    wanted = [each for outcome in chosen.outcomes for each in outcome.wanted]
    return Migration(
        source=old.shown,
        target=str(place),
        pipeline=found.pipeline,
        why=found.why,
        base=chosen.base,
        platform=on,
        text=chosen.text,
        outcomes=[outcome for outcome in chosen.outcomes if outcome.setting is not None or _is_said(outcome)],
        added=_added(chosen, wanted),
        findings=_findings(chosen, found.pipeline),
        missing=_missing(chosen.plan, found),
        wanted=wanted,
        held=sum(holds(each, chosen.plan) for each in wanted),
    )


def verify(migration: Migration, path: Path) -> int:
    """The proof, from what now lies on disk: how many of the wanted values the file gives."""
    profile = load_file(path, str(path))
    plan = compile_profile(profile, migration.platform, pipeline_of(profile, migration.pipeline))
    return sum(holds(each, plan) for each in migration.wanted)


def _is_said(outcome: Outcome) -> bool:
    """Whether what no line of the old file says had to be written, or was a flag of its command."""
    return outcome.fate is not Fate.DEFAULT or outcome.path.startswith("-")


def _platform_of(old: OldFile) -> str:
    """What the workers of the file run on, or the folder that upstream kept it in; CUDA where nothing tells."""
    classes = facts()["worker_classes"]
    told = {
        classes[name]["platform"]
        for stage in old.stages
        if isinstance(name := stage.value("engine_args", "worker_cls"), str) and name in classes
    }
    parts = old.path.absolute().parts
    folder = next((after for before, after in itertools.pairwise(parts) if before == "platforms"), None)
    if len(told - {"cuda"}) == 1:
        return str((told - {"cuda"}).pop())
    from omnicfg.catalog.upstream import deploy_schema

    return folder if folder in deploy_schema().platforms else "cuda"


def _thinnest(
    old: OldFile, found: Recognised, mapped: Sequence[Outcome], bases: Sequence[Base], platform: str, shown: str
) -> Draft:
    """The draft that writes and adds least, on one of the bases, or on none where there are none."""
    drafts: list[Draft] = []
    for base in bases:
        try:
            drafts.append(draft(old, found, mapped, base, platform, shown))
        except ResolveError:
            if len(bases) == 1:
                raise
    if not drafts:
        return draft(old, found, mapped, NO_BASE, platform, shown)
    return min(drafts, key=_distance)


def _distance(each: Draft) -> tuple[int, int, int, str]:
    """Losses first; then whether the base is for another runner or mode; then lines to write, and values added."""
    wanted = [one for outcome in each.outcomes for one in outcome.wanted]
    losses = sum(outcome.fate.is_loss for outcome in each.outcomes)
    own = each.base.profile
    foreign = sum(own is not None and own.deploy.value(name) != value for name, value in facts()["implied"].items())
    return losses, foreign, each.written + len(_added(each, wanted)), each.base.name


def _added(chosen: Draft, wanted: Sequence[Wanted]) -> list[Added]:
    """What the base sets where the old file said nothing."""
    said = {(each.stage_id, each.route) for each in wanted}
    found: list[Added] = []
    for stage_id, route, node in _settings_of(chosen.plan):
        own = node.layer.kind not in _FROM_BASE or node.mark.file == chosen.profile.shown
        if own or any((stage_id, route[:length]) in said for length in range(1, len(route) + 1)):
            continue
        key = dotted(route if stage_id is None else ("stages", stage_id, *route))
        found.append(Added(key, redacted(tuple(route), plain(node)), str(node.mark)))
    return found


def _settings_of(plan: Plan) -> Iterator[tuple[int | None, Route, Node]]:
    """The settings of a plan as an old file would count them: parameters and connectors one by one."""
    for name, node in plan.deploy.items.items():
        if name not in ("platforms", "pipeline", "duplex_session"):
            yield from ((None, *each) for each in _parts((name,), node))
    for stage in plan.stages:
        for block in (stage.engine_args, stage.runtime, stage.extras):
            for name, node in block.items.items():
                if name not in _DERIVED:
                    yield from ((stage.stage_id, *each) for each in _parts((name,), node))


def _parts(route: Route, node: Node) -> Iterator[tuple[Route, Node]]:
    if route[0] in _TAKEN_APART and isinstance(node, Mapping) and node.items:
        for key, child in node.items.items():
            yield from _parts((*route, key), child)
    else:
        yield route, node


def _findings(chosen: Draft, pipeline: str) -> list[Diagnostic]:
    """The errors that ``validate`` finds in the new file."""
    subject = Subject(chosen.profile, pipeline, plans={chosen.plan.platform: chosen.plan})
    found = run_rules(subject)
    own = chosen.profile.shown
    errors = [each for each in found if each.severity is Severity.ERROR and each.path == own]
    return sorted(errors, key=lambda each: each.sort_key)


def _missing(plan: Plan, found: Recognised) -> list[str]:
    """Stages that the pipeline starts today and that the old file did not have."""
    known = {topology["stage_id"] for topology in found.stages.values()}
    return [f"{stage.stage_id} ({stage.model_stage})" for stage in plan.stages if stage.stage_id not in known]
