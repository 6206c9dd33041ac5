"""A whole command line → an overlay that says what its flags say, and the shortest command that means the same."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omnicfg.catalog.upstream import deploy_schema
from omnicfg.command_line.effect import effect
from omnicfg.command_line.flags import catalog
from omnicfg.command_line.parse import CommandLine, Given
from omnicfg.command_line.profile import findings_of_command
from omnicfg.compiler import Profile, compile_profile
from omnicfg.diagnostics import Diagnostic, Severity
from omnicfg.differences.compare import Change, diff
from omnicfg.migrate.bases import Base, bases_for
from omnicfg.migrate.facts import facts
from omnicfg.migrate.outcome import Fate, Outcome, Wanted
from omnicfg.migrate.overlay import Draft, draft
from omnicfg.migrate.recognise import Recognised
from omnicfg.passes.override import Override
from omnicfg.plan import Plan
from omnicfg.tree import Node, Route, find, plain

_FOLDED = ("deploy_config", "stage_overrides", "async_chunk", "omni", "model")


@dataclass(frozen=True)
class MigratedCommand:
    """An overlay and the command that starts it; ``changes`` is what the two commands differ in, if anything.

    ``text`` is empty where no flag says anything that the profile does not say: then there is nothing to write.
    ``left_open`` are the flags whose values nothing tells, ``rest`` words that may stand for any flags.
    """

    pipeline: str
    platform: str
    base: Base
    target: str
    text: str
    command: str
    told: Sequence[tuple[str, str]]
    findings: Sequence[Diagnostic]
    changes: Sequence[Change]
    left_open: Sequence[str] = ()
    rest: Sequence[str] = ()

    @property
    def errors(self) -> int:
        """How many findings keep the command from starting as it was."""
        return sum(finding.severity is Severity.ERROR for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        return {
            "pipeline": self.pipeline,
            "platform": self.platform,
            "base_config": self.base.reference,
            "target": self.target,
            "profile": self.text,
            "command": self.command,
            "flags": [{"flag": flag, "became": became} for flag, became in self.told],
            "left_open": [*self.left_open, *self.rest],
            "findings": [finding.to_dict() for finding in self.findings],
            "differences": [change.to_dict() for change in self.changes],
        }


def migrate_command(
    line: CommandLine, profile: Profile, pipeline: str, target: Path, platform: str = "cuda"
) -> MigratedCommand:
    """The overlay on ``profile``, the one that the command starts, and the command without the flags that it took in.

    Raises :class:`~omnicfg.errors.OmnicfgError` where the profile does not compile.
    """
    before = compile_profile(profile, platform, pipeline)
    made = effect(line, pipeline, before)
    kept = tuple(given.text for given in line.given.values() if _stays(given, line))
    if _keeps_overrides(line):
        kept = (*kept, "--stage-overrides ")
    folded = [override for override in made.overrides if not override.node.mark.file.startswith(kept)]
    wanted_plan = compile_profile(profile, platform, pipeline, folded)
    (base,) = bases_for(pipeline, target.parent, str(profile.path) if profile.path.is_file() else profile.shown)
    outcomes = _outcomes(folded, wanted_plan)
    found = Recognised(pipeline, {}, "the command starts it")
    drafted = draft(None, found, outcomes, base, platform, str(target))
    is_needed = drafted.written > 0
    deploy = str(target) if is_needed else str(line.value("deploy_config") or "")
    return MigratedCommand(
        pipeline=pipeline,
        platform=platform,
        base=base,
        target=str(target),
        text=drafted.text if is_needed else "",
        command=shortest(line, deploy),
        told=_told(line, drafted),
        findings=[*findings_of_command(line), *line.findings, *made.findings],
        changes=[change for change in diff(wanted_plan, drafted.plan) if change.key != "pipeline"],
        left_open=[each.text for each in line.given.values() if each.is_open],
        rest=[each.text for each in line.rest],
    )


def _outcomes(overrides: Sequence[Override], plan: Plan) -> list[Outcome]:
    """The flags as settings that the overlay has to say, each once, with the value that it comes to."""
    outcomes: dict[tuple[int | None, Route], Outcome] = {}
    for override in overrides:
        stage_id, route = _place(override)
        node = _node(plan, stage_id, route)
        if node is not None:
            wanted = Wanted(stage_id, route, node, plain(node))
            outcomes[stage_id, route] = Outcome(override.node.mark.file, None, Fate.KEPT, "", None, (wanted,))
    return list(outcomes.values())


def _place(override: Override) -> tuple[int | None, Route]:
    """The stage and the key that an override writes; blocks that a profile replaces as a whole are written whole."""
    if override.route[0] != "stages":
        return None, override.route
    rest = override.route[2:]
    deep = rest[0] in deploy_schema().deep_merge_keys
    return int(override.route[1]), rest if deep else rest[:1]


def _node(plan: Plan, stage_id: int | None, route: Route) -> Node | None:
    if stage_id is None:
        return find(plan.deploy, route)
    stage = plan.stage(stage_id)
    return None if stage is None else stage.find(route)


def _told(line: CommandLine, drafted: Draft) -> list[tuple[str, str]]:
    """What became of every flag."""
    keys: dict[str, list[str]] = {}
    for outcome in drafted.outcomes:
        is_default = outcome.fate is Fate.DEFAULT
        word = "as the profile has it" if is_default else outcome.wanted[0].key if outcome.wanted else outcome.note
        keys.setdefault(outcome.path, []).append(word)
    return [(given.text, _became(given, keys, line)) for given in line.given.values()]


def _became(given: Given, keys: dict[str, list[str]], line: CommandLine) -> str:
    found = keys.get(given.text)
    if given.flag.dest == "stage_overrides":
        found = [word for text, words in keys.items() if text.startswith("--stage-overrides") for word in words]
    if _stays(given, line):
        return _why_it_stays(given)
    if found:
        return ", ".join(dict.fromkeys(found))
    if given.flag.dest == "deploy_config":
        return "the base of the profile"
    if given.flag.reach == "nothing":
        return "left out: nothing reads it"
    return "left out: no stage takes it" if given.flag.reach == "stages" else "kept in the command"


def _why_it_stays(given: Given) -> str:
    if given.is_open:
        return "kept in the command: its value is not known here"
    if _is_shared(given):
        return "kept in the command: the server reads it, too"
    if given.flag.dest == "stage_overrides":
        return "kept in the command: it has to go over what is not known here"
    return "kept in the command"


def shortest(line: CommandLine, deploy: str) -> str:
    """The shortest command: the model, the profile, and the flags that a profile cannot say."""
    words = ["vllm", "serve", *([line.model.quoted] if line.model is not None else []), "--omni"]
    if deploy:
        words += ["--deploy-config", shlex.quote(deploy)]
    for given in line.given.values():
        if _stays(given, line):
            words += given.words
    return " ".join([*words, *(word.quoted for word in line.rest)])


def _keeps_overrides(line: CommandLine) -> bool:
    """Whether a flag of unknown value stays, over which overrides of a stage have to go as before."""
    return bool(line.rest) or any(given.is_open and given.flag.reach == "stages" for given in line.given.values())


def _stays(given: Given, line: CommandLine) -> bool:
    """Whether a flag has to stay in the command: a profile cannot say it, or not all that it says."""
    if given.flag.dest in ("deploy_config", "omni", "model") or given.flag.reach == "nothing":
        return False
    if given.is_open or _is_shared(given) or (given.flag.dest == "stage_overrides" and _keeps_overrides(line)):
        return True
    return given.flag.dest not in _FOLDED and given.flag.reach != "stages"


def _is_shared(given: Given) -> bool:
    """Whether the server reads a flag of the stages for itself as well, and starts with it."""
    dest = given.flag.dest
    return dest in catalog().read_by_server and any(dest in owned for owned in deploy_schema().owners.values())


def old_flags(line: CommandLine, outcomes: Sequence[Outcome], pipeline: str) -> list[Outcome]:
    """What the flags of an old command meant beside its stage config, as further settings for the profile.

    Before 0.30 a flag filled in what a stage's own ``engine_args`` left open, and nothing else (``base_engine_args``).
    """
    said = {(wanted.stage_id, wanted.route[0]) for outcome in outcomes for wanted in outcome.wanted}
    found = []
    for override in effect(line, pipeline).overrides:
        stage_id, route = _place(override)
        if stage_id is None or (stage_id, route[0]) in said or route[0] in facts()["implied"]:
            continue
        wanted = Wanted(stage_id, route, override.node, plain(override.node))
        found.append(
            Outcome(override.node.mark.file, None, Fate.KEPT, "filled in what the stage left open", None, (wanted,))
        )
    return found


def unread_flags(line: CommandLine, outcomes: Sequence[Outcome]) -> list[str]:
    """The engine args of an old command that filled in nothing."""
    used = {outcome.path for outcome in outcomes}
    return [each.text for each in line.given.values() if each.flag.reach == "stages" and each.text not in used]


def old_findings(line: CommandLine, pipeline: str) -> list[Diagnostic]:
    """What is wrong with the flags of an old command today, but for the one that names its stage config."""
    flag = None if line.stage_config_flag is None else line.stage_config_flag.mark
    place = None if flag is None else (flag.line, flag.column)
    told = [each for each in line.findings if each.code != "OC851" or (each.line, each.column) != place]
    unread = [each for each in effect(line, pipeline).findings if each.code == "OC854"]
    return [*findings_of_command(line), *told, *unread]
