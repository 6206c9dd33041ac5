"""A parsed command line → the overrides that it comes to, and the flags that come to nothing or to too much.

As vLLM-Omni 0.30.0 has it (``_stage_cli_overrides``, ``VllmOmniConfig.from_pipeline_config``): a flag that is an engine
arg is set on every stage whose kind takes it, ``--stage-overrides`` goes over that, and both go over every file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from omnicfg.catalog.upstream import deploy_schema, pipelines
from omnicfg.command_line.findings import finding
from omnicfg.command_line.flags import Flag, catalog
from omnicfg.command_line.parse import CommandLine, Given
from omnicfg.diagnostics import Diagnostic, Severity
from omnicfg.differences.compare import same
from omnicfg.near import did_you_mean
from omnicfg.passes.override import LAYER, Override, is_plain
from omnicfg.passes.read import MAX_DEPTH
from omnicfg.plan import Plan
from omnicfg.report.yaml import inline
from omnicfg.secrets import redacted
from omnicfg.tree import Mark, Node, Route, grow, plain

_SHARED_ONLY: Final = ("kv_cache_dtype", "seed")
_UNREAD_HERE: Final = {
    "config": "the flags in its file are not read here",
    "strategy_config": "what the strategy derives is not applied here",
    "forced_aligner": "the stage that it adds is not shown here",
    "forced_aligner_config": "the stage that it adds is not shown here",
}
_DEGREES: Final = ("ulysses_degree", "ring_degree", "allgather_degree")

Stage = Mapping[str, Any]


class Effect(NamedTuple):
    """What a command line does to a profile: overrides in the order in which they apply, and findings.

    ``places`` says where in the command the flags stand that overrides name as the files that they are from.
    """

    overrides: list[Override]
    findings: list[Diagnostic]
    places: dict[str, Mark]


def effect(line: CommandLine, pipeline: str, before: Plan | None = None) -> Effect:
    """What the flags come to for a pipeline; ``before`` is the plan without them, where there is one."""
    made = _Effect(line, pipeline, before)
    return Effect(made.overrides(), made.findings, made.places)


class _Effect:
    def __init__(self, line: CommandLine, pipeline: str, before: Plan | None) -> None:
        self.line = line
        self.pipeline = pipeline
        self.stages: list[Stage] = list(pipelines()[pipeline]["stages"])
        self.before = before
        self.findings: list[Diagnostic] = []
        self.set: dict[Route, Node] = {}
        self.places = {given.text: given.mark for given in line.given.values()}

    def overrides(self) -> list[Override]:
        for given in self.line.given.values():
            self._check(given)
            if given.value is not None:
                self._global(given)
        chunks = self.line.given.get("async_chunk")
        if chunks is not None and chunks.value is not None:
            self._put(("async_chunk",), bool(chunks.value), chunks.text)
        stage_overrides = self.line.given.get("stage_overrides")
        if stage_overrides is not None and stage_overrides.value is not None:
            for stage_id, settings in stage_overrides.value.items():
                self._of_stage(stage_id, settings, stage_overrides)
        return [Override(tuple(map(str, route)), node) for route, node in self.set.items()]

    def _put(self, route: Route, value: Any, text: str) -> None:
        self.set.pop(route, None)
        self.set[route] = grow(value, LAYER, Mark(text))

    def _tell(self, name: str, place: Mark, message: str, help: str | None = None, **rest: Any) -> None:
        self.findings.append(finding(name, place, message, help, **rest))

    # --------------------------------------------------------------------------------------------- flags of all stages
    def _check(self, given: Given) -> None:
        flag = given.flag
        if flag.reach == "nothing":
            self._tell("ineffective-flag", given.mark, f"nothing reads `{flag.shown}`", "Leave it out.")
        elif flag.dest in _UNREAD_HERE:
            why = f"`{flag.shown}`: {_UNREAD_HERE[flag.dest]}"
            self._tell("ineffective-flag", given.mark, why, severity=Severity.NOTE)
        kinds = {stage["execution_type"] for stage in self.stages}
        if flag.refused_by_diffusion and "diffusion" in kinds:
            self._tell(
                "refused-flag", given.mark, f"the diffusion stage of pipeline {self.pipeline} refuses `{flag.shown}`"
            )
        elif given.value is not None and self._is_unowned(flag, kinds):
            message = f"no stage of pipeline {self.pipeline} takes `{flag.shown}`, so the server does not start"
            self._tell("refused-flag", given.mark, message, "Leave it out.")
        elif flag.needs_no_owner and not kinds & set(flag.stages):
            self._tell("ineffective-flag", given.mark, f"no stage of pipeline {self.pipeline} takes `{flag.shown}`")

    @staticmethod
    def _is_unowned(flag: Flag, kinds: set[str]) -> bool:
        """Whether a flag is an engine arg that no stage takes; beside a diffusion stage two of them may be."""
        if flag.reach != "stages" or flag.needs_no_owner or (flag.dest in _SHARED_ONLY and "diffusion" in kinds):
            return False
        if flag.dest in catalog().owned_by_no_stage:
            return True
        owners = deploy_schema().owners
        return not any(kind in flag.stages or flag.dest in owners[kind] for kind in kinds)

    def _global(self, given: Given) -> None:
        flag = given.flag
        if flag.dest in deploy_schema().pipeline_wide:
            self._put((flag.dest,), given.value, given.text)
        reached = [stage for stage in self.stages if stage["execution_type"] in flag.stages]
        routes: list[Route] = []
        for stage in reached:
            for name, template in flag.stages[stage["execution_type"]].items():
                value = given.value if template is None else _filled(template, given.value)
                routes += self._put_on_stage(stage, name, value, given.text)
        if len(reached) > 1:
            self._check_stamp(given, routes)

    def _check_stamp(self, given: Given, routes: list[Route]) -> None:
        """A flag that several stages take says so; the worse where it replaces what the profile says of them."""
        replaced = [text for route in routes if (text := self._replaced(route, given.value))]
        ids = ", ".join(str(route[1]) for route in routes)
        message = f"`{given.text}` is set on stages {ids}"
        if replaced:
            self._tell(
                "stamps-every-stage",
                given.mark,
                f"{message}, over {', '.join(replaced)}",
                f'For one stage: `--stage-overrides \'{{"{routes[0][1]}": {{"{given.flag.dest}": ...}}}}\'`.',
            )
        elif given.flag.dest not in deploy_schema().pipeline_wide:
            self._tell("stamps-every-stage", given.mark, message, severity=Severity.NOTE)

    def _replaced(self, route: Route, value: Any) -> str | None:
        """In words, the value of the profile that another one takes the place of."""
        if self.before is None:
            return None
        stage = self.before.stage(int(str(route[1])))
        node = None if stage is None else stage.find(route[2:])
        if node is None or not node.mark.file.endswith((".yaml", ".yml")):
            return None
        old = plain(node)
        return None if same(old, value) else f"{inline(redacted(route[2:], old))} of stage {route[1]}"

    # ----------------------------------------------------------------------------------------- overrides of one stage
    def _of_stage(self, text: str, settings: Mapping[str, Any], given: Given) -> None:
        stage = next((stage for stage in self.stages if stage["stage_id"] == int(text)), None)
        if stage is None:
            ids = ", ".join(str(each["stage_id"]) for each in self.stages)
            message = f"pipeline {self.pipeline} has no stage {int(text)}, so its overrides are dropped"
            self._tell("ineffective-flag", given.place(text), message, f"Its stages are {ids}.")
            return
        for name, value in settings.items():
            place = given.place(text, name)
            if self._is_taken(stage, name, value, place, padded=text != str(int(text))):
                shown = f"--stage-overrides {json.dumps(redacted('', {text: {name: value}}))}"
                shown = shown if len(shown) <= 120 else f"{shown[:117]}..."
                self.places[shown] = place
                self._put_on_stage(stage, name, value, shown)

    def _is_taken(self, stage: Stage, name: str, value: Any, place: Mark, *, padded: bool) -> bool:
        is_diffusion = stage["execution_type"] == "diffusion"
        where = f"`{name}` of stage {stage['stage_id']}"
        if is_diffusion and name in catalog().refused_on_diffusion_stages:
            self._tell("refused-flag", place, f"{where} cannot be overridden on a diffusion stage")
            return False
        owners = deploy_schema().owners[stage["execution_type"]]
        is_known = name in owners or name in ("devices", "num_replicas", "env")
        if value is None and (is_known or not is_diffusion):
            self._tell("ineffective-flag", place, f"{where} is null, which overrides nothing")
            return False
        dropped = name in catalog().dropped_from_stage_overrides and not is_diffusion
        if dropped or (name == "step_execution" and not is_diffusion):
            self._tell("ineffective-flag", place, f"{where} is dropped: it is no setting of a stage there")
            return False
        if padded and not is_diffusion and not _is_engine_arg(name):
            self._tell("ineffective-flag", place, f"{where} is dropped: the id is written with a zero before it")
            return False
        if not is_known:
            message = f"a stage of kind {stage['execution_type']} takes no `{name}`, so the server does not start"
            self._tell("refused-flag", place, message, did_you_mean(name, owners))
            return False
        return True

    def _put_on_stage(self, stage: Stage, name: str, value: Any, text: str) -> list[Route]:
        """Set an engine arg of a stage; diffusion stages hold their parallel sizes in one block."""
        route: Route = ("stages", stage["stage_id"], name)
        if stage["execution_type"] == "diffusion" and name in _diffusion_parallel():
            route = ("stages", stage["stage_id"], "parallel_config", name)
            self._put(route, value, text)
            self._sequence_parallel(stage, name, text)
            return [route]
        if isinstance(value, dict) and name != "omni_kv_config":
            for below, leaf in _entries(value):
                self._put((*route, *below), leaf, text)
            return [route]
        self._put(route, value, text)
        return [route]

    def _sequence_parallel(self, stage: Stage, name: str, text: str) -> None:
        """The size that follows from the degrees, as upstream computes it where it is not given itself."""
        prefix: Route = ("stages", stage["stage_id"], "parallel_config")
        explicit = self.line.value("sequence_parallel_size") is not None
        if name not in _DEGREES or explicit:
            return
        degrees = {degree: self._degree(stage, (*prefix, degree)) for degree in _DEGREES}
        size = degrees["ulysses_degree"] * degrees["ring_degree"]
        if degrees["allgather_degree"] > 1:
            size = degrees["allgather_degree"]
        self._put((*prefix, "sequence_parallel_size"), size, text)

    def _degree(self, stage: Stage, route: Route) -> int:
        node = self.set.get(route)
        if node is None and self.before is not None:
            planned = self.before.stage(stage["stage_id"])
            node = None if planned is None else planned.find(route[2:])
        value = None if node is None else plain(node)
        return value if isinstance(value, int) and value else 1


def _entries(value: Any) -> Iterator[tuple[Route, Any]]:
    """The entries of a mapping at every depth: each goes over its own, as upstream merges them."""
    if not isinstance(value, dict) or not value:
        yield (), value
        return
    for key, child in value.items():
        yield from (((key, *below), leaf) for below, leaf in _entries(child))


def _is_engine_arg(name: str) -> bool:
    flag = catalog().named(name)
    return flag is not None and flag.reach == "stages"


def _diffusion_parallel() -> frozenset[str]:
    from omnicfg.catalog.paths import load_json
    from omnicfg.catalog.upstream import VLLM_OMNI

    raw = load_json(f"schemas/vllm-omni/{VLLM_OMNI}/deploy.json")
    return frozenset(raw["owners"]["diffusion"]["parallel_config"])


def _json_or_text(text: str) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if is_plain(value, MAX_DEPTH) else text


def _filled(template: Any, value: Any) -> Any:
    if template == "*":
        return value
    if template == "json:*":
        return _json_or_text(value)
    if isinstance(template, dict):
        return {key: _filled(child, value) for key, child in template.items()}
    if isinstance(template, list):
        return [_filled(child, value) for child in template]
    return template
