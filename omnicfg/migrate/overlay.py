"""Pass 5: what has to be written over a base, and nothing more; every form is tried out before it is taken."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from omnicfg.catalog.paths import load_json
from omnicfg.catalog.upstream import VLLM_OMNI, deploy_schema, pipelines
from omnicfg.catalog.vllm_args import engine_args, vllm_versions
from omnicfg.compiler import Profile, compile_profile
from omnicfg.differences.compare import same
from omnicfg.errors import ResolveError
from omnicfg.migrate.bases import Base
from omnicfg.migrate.emit import Placed, emit
from omnicfg.migrate.fates import is_expression
from omnicfg.migrate.old_file import OldFile
from omnicfg.migrate.outcome import Fate, Outcome, Wanted
from omnicfg.migrate.recognise import Recognised
from omnicfg.origins import origin_text
from omnicfg.passes.deploy import deploy
from omnicfg.passes.inherit import Chain, merge_documents
from omnicfg.passes.interpolate import interpolate
from omnicfg.passes.read import read_text
from omnicfg.plan import Plan
from omnicfg.tree import Layer, LayerKind, Mapping, Mark, Node, Route, find, leaves, plain

_WHOLE: Final = ("input_connectors", "output_connectors", "default_pooling_params")
_ROUNDS: Final = 8


@dataclass(frozen=True)
class Draft:
    """A profile in the making: its text, what was compiled from it, and what became of every setting."""

    base: Base
    text: str
    profile: Profile
    plan: Plan
    outcomes: list[Outcome]
    written: int


def draft(
    old: OldFile | None, found: Recognised, outcomes: Sequence[Outcome], base: Base, platform: str, shown: str
) -> Draft:
    """The thinnest profile on a base. Raises :class:`ResolveError` where none compiles."""
    return _Drafter(old, found, outcomes, base, platform, shown).draft()


class _Drafter:
    def __init__(
        self,
        old: OldFile | None,
        found: Recognised,
        outcomes: Sequence[Outcome],
        base: Base,
        platform: str,
        shown: str,
    ) -> None:
        self.old = old
        self.found = found
        self.outcomes = list(outcomes)
        self.base = base
        self.platform = platform
        self.shown = shown
        self.stage_ids = [stage["stage_id"] for stage in pipelines()[found.pipeline]["stages"]]
        self.marks = {} if old is None else _block_marks(old, found)
        self.forms: dict[int, list[str]] = {}

    def draft(self) -> Draft:
        alone = self._alone()
        written = [
            at
            for at, outcome in enumerate(self.outcomes)
            if outcome.wanted and (not self._holds(outcome, alone) or self._has_to_be_said(outcome, alone))
        ]
        written = sorted({*written, *self._siblings(written)})
        self._choose_forms(written)
        for _ in range(_ROUNDS):
            text = self._text(written)
            profile, plan = self._compile(text)
            failing = [
                at for at, outcome in enumerate(self.outcomes) if outcome.wanted and not self._holds(outcome, plan)
            ]
            if not failing:
                break
            written = self._next_forms(written, failing, plan)
        else:
            raise AssertionError("forms do not run out")  # each round takes a form, or the setting, away
        return Draft(self.base, text, profile, plan, self._told(written, plan), len(written))

    def _alone(self) -> Plan | None:
        """What the base says by itself, or the schema's defaults; ``None`` where that does not compile."""
        chunks = [at for at, outcome in enumerate(self.outcomes) if outcome.path == "async_chunk" and outcome.wanted]
        for written in ([], chunks):
            self._choose_forms(written)
            try:
                return self._compile(self._text(written))[1]
            except ResolveError:
                continue
            finally:
                self.forms.clear()
        return None

    def _has_to_be_said(self, outcome: Outcome, alone: Plan | None) -> bool:
        """Whether a value holds only here and now, or because :meth:`_alone` had to write it."""
        if any(is_expression(leaf) for wanted in outcome.wanted for _, leaf in leaves(wanted.raw)):
            return True
        nodes = [effective_node(wanted, alone) for wanted in outcome.wanted if alone is not None]
        return any(node is not None and node.layer.kind is LayerKind.PROFILE for node in nodes)

    def _choose_forms(self, written: list[int]) -> None:
        wide = self._pipeline_wide(written)
        block = self.base.raw is not None and self.platform != "cuda"
        for at in written:
            forms = ["platform", "stage"] if block else ["stage", "platform"]
            self.forms[at] = [*(["wide"] if at in wide else []), *forms, "engine_args", "engine_extras"]

    def _pipeline_wide(self, written: list[int]) -> set[int]:
        """The settings that every stage of the pipeline has alike, and that may be said once for all of them."""
        by_name: dict[Any, dict[Any, list[int]]] = {}
        for at in written:
            wanted = self.outcomes[at].wanted[0]
            if wanted.stage_id is not None and wanted.route[0] in deploy_schema().pipeline_wide:
                by_name.setdefault(wanted.route[0], {}).setdefault(wanted.stage_id, []).append(at)
        alike: set[int] = set()
        for stages in by_name.values():
            places = [at for each in stages.values() for at in each]
            values = [self.outcomes[at].wanted[0].value for at in places]
            if (
                len(self.stage_ids) > 1
                and set(stages) == set(self.stage_ids)
                and all(same(values[0], v) for v in values)
            ):
                alike |= set(places)
        return alike

    def _siblings(self, written: list[int]) -> Iterator[int]:
        """What stands in a block that is replaced as a whole has to be written with the rest of it."""
        blocks = {
            (wanted.stage_id, wanted.route[0])
            for at in written
            for wanted in self.outcomes[at].wanted
            if wanted.stage_id is not None and wanted.route[0] in _WHOLE
        }
        for at, outcome in enumerate(self.outcomes):
            if any((wanted.stage_id, wanted.route[0]) in blocks for wanted in outcome.wanted):
                yield at

    def _next_forms(self, written: list[int], failing: list[int], plan: Plan) -> list[int]:
        """The settings to write next time: a form that did not do is dropped, and with the last one the setting."""
        kept = list(written)
        for at in failing:
            if at not in self.forms:
                self._choose_forms([at])
                kept.append(at)
                continue
            self.forms[at].pop(0)
            is_wide = any(wanted.stage_id is None for wanted in self.outcomes[at].wanted)
            if not self.forms[at] or is_wide:
                kept.remove(at)
                self.outcomes[at] = _beaten(self.outcomes[at], plan)
        return sorted(kept)

    def _text(self, written: list[int]) -> str:
        reference = self.base.reference
        head = {"pipeline": self.found.pipeline} if reference is None else {"base_config": reference}
        if reference is not None and self.base.raw is not None and self.base.raw.value("pipeline") is None:
            head["pipeline"] = self.found.pipeline
        placed = [each for at in written for each in self._placed(at)]
        return emit(self.old, head, placed, self.marks)

    def _placed(self, at: int) -> Iterator[Placed]:
        outcome = self.outcomes[at]
        form = self.forms[at][0]
        for wanted in outcome.wanted:
            if wanted.stage_id is None:
                yield Placed(wanted.route, wanted, outcome.mark)
                continue
            path: Route = ("stages", wanted.stage_id, *wanted.route)
            if form == "wide":
                path = wanted.route
            elif form == "platform":
                path = ("platforms", self.platform, *path)
            elif form in ("engine_args", "engine_extras"):
                path = ("stages", wanted.stage_id, form, *wanted.route)
            yield Placed(path, wanted, outcome.mark)

    def _compile(self, text: str) -> tuple[Profile, Plan]:
        profile = profile_of(text, self.shown, self.base)
        return profile, compile_profile(profile, self.platform, self.found.pipeline)

    def _holds(self, outcome: Outcome, plan: Plan | None) -> bool:
        return plan is not None and all(holds(wanted, plan) for wanted in outcome.wanted)

    def _told(self, written: list[int], plan: Plan) -> list[Outcome]:
        """The outcomes, with those that needed no line of their own as what they are now."""
        return [
            replace(outcome, fate=Fate.DEFAULT, note=_where(outcome.wanted[0], plan))
            if outcome.wanted and at not in written
            else outcome
            for at, outcome in enumerate(self.outcomes)
        ]


def profile_of(text: str, shown: str, base: Base) -> Profile:
    """A text as a profile over a base, as if both lay on disk."""
    document = interpolate(read_text(text, Layer(LayerKind.PROFILE, Path(shown).name), shown)).without("base_config")
    chain = Chain()
    chain.documents.append(document)
    raw = document
    if base.profile is not None:
        chain.documents += base.profile.chain.documents
        raw = merge_documents(base.profile.raw, document)
    return Profile(shown, Path(shown), raw, chain, deploy(raw))


def effective_node(wanted: Wanted, plan: Plan) -> Node | None:
    """What a plan says where a value is wanted."""
    if wanted.stage_id is None:
        return find(plan.deploy, wanted.route)
    stage = plan.stage(wanted.stage_id)
    return None if stage is None else stage.find(wanted.route)


def holds(wanted: Wanted, plan: Plan) -> bool:
    """Whether a plan gives a wanted value, by saying so or by the default of the release."""
    node = effective_node(wanted, plan)
    if node is not None:
        return same(plain(node), wanted.value)
    return wanted.value is None or _is_release_default(wanted, plan)


def _is_release_default(wanted: Wanted, plan: Plan) -> bool:
    stage = None if wanted.stage_id is None else plan.stage(wanted.stage_id)
    if stage is None or len(wanted.route) != 1:
        return False
    name = str(wanted.route[0])
    field = deploy_schema().stage_fields.get(name)
    if field is not None and field.default is not None:
        return same(field.default, wanted.value)
    defaults = diffusion_defaults() if stage.stage_type == "diffusion" else vllm_defaults()
    return name in defaults and same(defaults[name], wanted.value)


@functools.cache
def vllm_defaults() -> dict[str, Any]:
    """The defaults that every known release of vLLM has alike, so that they do not depend on which one runs."""
    first, *others = [engine_args(version) for version in vllm_versions()]
    alike = {}
    for name, arg in first.items():
        value = arg["default"]
        if value is not None and all(name in each and same(each[name]["default"], value) for each in others):
            alike[name] = value
    return alike


@functools.cache
def diffusion_defaults() -> dict[str, Any]:
    """The defaults of vLLM-Omni's own engine, for diffusion stages."""
    fields = load_json(f"schemas/vllm-omni/{VLLM_OMNI}/deploy.json")["diffusion_args"]
    return {field["name"]: field["default"] for field in fields if field.get("default") is not None}


def _where(wanted: Wanted, plan: Plan) -> str:
    """In words, where the plan has a value from that needed no line."""
    node = effective_node(wanted, plan)
    if node is None:
        stage = None if wanted.stage_id is None else plan.stage(wanted.stage_id)
        engine = f"vLLM-Omni {VLLM_OMNI}" if stage is not None and stage.stage_type == "diffusion" else "vLLM"
        return "unset, as before" if wanted.value is None else f"the default of {engine}"
    return f"by {origin_text(node)}"


def _beaten(outcome: Outcome, plan: Plan) -> Outcome:
    wanted = next(each for each in outcome.wanted if not holds(each, plan))
    node = effective_node(wanted, plan)
    why = "nothing takes it" if node is None else f"{origin_text(node)} goes over it"
    return replace(outcome, fate=Fate.LOST, note=why, instead="Try `--flat`, or another `--base`.", wanted=())


def _block_marks(old: OldFile, found: Recognised) -> dict[Route, Mark]:
    """Where the old file wrote the blocks that the new one has as well."""
    marks: dict[Route, Mark] = {}
    for stage in old.stages:
        topology = found.stages.get(stage.position)
        if topology is None:
            continue
        route: Route = ("stages", topology["stage_id"])
        marks[route] = stage.mark
        for name in ("default_sampling_params", *_WHOLE):
            if name in stage.entry.items:
                marks[(*route, name)] = stage.entry.key_mark(name)
    runtime = old.document.items.get("runtime")
    for owner in (old.document, runtime):
        connectors = owner.items.get("connectors") if isinstance(owner, Mapping) else None
        if isinstance(owner, Mapping) and isinstance(connectors, Mapping):
            marks[("connectors",)] = owner.key_mark("connectors")
            for key, node in connectors.items.items():
                marks["connectors", str(key)] = connectors.key_mark(key)
                if isinstance(node, Mapping) and "extra" in node.items:
                    marks["connectors", str(key), "extra"] = node.key_mark("extra")
    return marks
