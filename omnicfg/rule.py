"""What a rule is made of: its documentation, its findings, and what it is given to look at."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final

from omnicfg.catalog.capabilities import Situation
from omnicfg.catalog.upstream import deploy_schema, pipelines
from omnicfg.catalog.vllm_args import DEFAULT_VLLM, vllm_versions
from omnicfg.compiler import Profile
from omnicfg.diagnostics import Diagnostic, Fix, Severity
from omnicfg.passes.override import Override, document_of
from omnicfg.plan import Plan, StagePlan
from omnicfg.registry import modules_of
from omnicfg.tree import Mapping, Mark, Node

if TYPE_CHECKING:
    from omnicfg.fixes.edits import Text
    from omnicfg.losses import Losses

DEFAULT_ENGINE: Final = "vllm-omni"
ENGINES: Final = ("vllm-omni", "bundled")


@dataclass(frozen=True)
class Rule:
    """A rule's own page: ``bad`` and ``good`` are whole profiles of the pipeline that ``bad`` names.

    They are checked for ``engine``, beside a ``base.yaml`` of the text ``base`` and a model's ``config.json`` of the
    text ``config`` where there are any, and with ``settings`` or ``good_settings`` as ``--set``.
    """

    code: str
    name: str
    severity: Severity
    what: str
    why: str
    bad: str
    good: str
    engine: str = DEFAULT_ENGINE
    base: str = ""
    config: str = ""
    settings: tuple[str, ...] = ()
    good_settings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Finding:
    """What a check yields: where, what, and what to do. The rule's name and severity are added to it."""

    mark: Mark
    message: str
    help: str | None = None
    stage_id: int | None = None
    platform: str | None = None
    severity: Severity | None = None
    fix: Fix | None = None


@dataclass(frozen=True)
class Subject:
    """A profile under check: what was read, which pipeline it configures, which engine will run it.

    ``model`` is the directory of the checkpoint that it is to serve, ``target`` the vLLM release, where one is named.
    """

    profile: Profile
    pipeline: str | None
    engine: str = DEFAULT_ENGINE
    overrides: Sequence[Override] = ()
    plans: dict[str, Plan] = field(default_factory=dict)
    model: Path | None = None
    target: str | None = None
    _texts: dict[str, Text] = field(default_factory=dict, repr=False)

    def text(self, file: str) -> Text | None:
        """The text of one of the profile's files, which is named as marks name it; ``None`` for anything else."""
        path = self.profile.chain.paths.get(file)
        if path is None:
            return None
        if file not in self._texts:
            from omnicfg.fixes.edits import Text
            from omnicfg.passes.read import load_text

            self._texts[file] = Text(load_text(path, file))
        return self._texts[file]

    def documents(self) -> list[Mapping]:
        """The files as they were written, and each override that a plan was compiled with as if it were a file."""
        overrides = self.overrides if self.plans else ()
        return [*self.profile.chain.documents, *map(document_of, overrides)]

    @functools.cached_property
    def losses(self) -> Losses:
        """What the profile says in vain."""
        from omnicfg.losses import Losses

        return Losses(self.profile, tuple(self.overrides))

    def topmost(self, *settings: Node | None) -> Node:
        """Of settings that do not go together, the one that was written nearest the top; the first of equals.

        Whoever wrote that one made them clash: a base may be right by itself.
        """
        return max((setting for setting in settings if setting is not None), key=self.losses.rank)

    @property
    def vllm_version(self) -> str:
        """The vLLM release whose engine args count: the one that is named, the bundled engine's own, or the oldest.

        vLLM-Omni 0.30.0 runs on vLLM 0.30, of which the oldest shipped release is the nearest.
        """
        return self.target or (DEFAULT_VLLM if self.engine == "bundled" else vllm_versions()[0])

    def stage_kind(self, stage_id: object) -> str | None:
        """The execution type of a stage; ``None`` where the pipeline or the stage is unknown."""
        if self.pipeline is None:
            return None
        stages = pipelines()[self.pipeline]["stages"]
        return next((stage["execution_type"] for stage in stages if stage["stage_id"] == stage_id), None)

    def situation(self, plan: Plan, stage: StagePlan) -> Situation:
        """The facts that capability records are matched against, as they take effect."""
        return situation(plan, stage, self.engine)


def situation(plan: Plan, stage: StagePlan, engine: str) -> Situation:
    """What a stage of a plan runs in, as it takes effect on an engine."""
    return Situation(
        engine=engine,
        pipeline=plan.pipeline,
        platform=plan.platform,
        model_runner=str(plan.deploy.value("model_runner")),
        session_mode=effective_session_mode(plan),
        async_chunk=bool(stage.arg("async_chunk")),
        prefix_caching=prefix_caching(stage),
    )


def prefix_caching(stage: StagePlan) -> bool:
    """Whether a stage's prefix cache is on once vLLM has filled in its default (on, for stages that generate text)."""
    value = stage.arg("enable_prefix_caching")
    return stage.worker_type == "ar" if value is None else bool(value)


def effective_session_mode(plan: Plan) -> str:
    """The mode a session really runs in: ``duplex`` needs the pipeline's plugin, otherwise it is served as turn."""
    mode = str(plan.deploy.value("session_mode"))
    return mode if mode != "duplex" or pipelines()[plan.pipeline].get("duplex_plugin") else "turn"


@functools.cache
def rule_modules() -> tuple[ModuleType, ...]:
    """Every rule's module, in the order of their codes."""
    return tuple(sorted(modules_of("omnicfg.rules").values(), key=lambda module: rule_of(module).code))


def rule_of(module: ModuleType) -> Rule:
    rule = module.RULE
    assert isinstance(rule, Rule)
    return rule


def diagnostic(rule: Rule, finding: Finding) -> Diagnostic:
    """A finding as a diagnostic of its rule."""
    return Diagnostic.at(
        finding.mark,
        rule.code,
        rule.name,
        finding.severity or rule.severity,
        finding.message,
        platform=finding.platform,
        stage_id=finding.stage_id,
        help=finding.help,
        fix=finding.fix,
    )


def all_platforms() -> tuple[str, ...]:
    return deploy_schema().platforms
