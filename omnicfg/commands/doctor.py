"""``omnicfg doctor``: what this machine can serve, what it lacks, and how to get that."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from omnicfg import confine
from omnicfg.commands._options import OVERLAYS, PIPELINE, PLATFORM_OR_CUDA, SETTINGS, profile_names, refuse_unread
from omnicfg.errors import UsageError
from omnicfg.parser import Argument, Option

if TYPE_CHECKING:
    from omnicfg.doctor.checks import Check
    from omnicfg.doctor.facts import Facts
    from omnicfg.doctor.verdict import Model
    from omnicfg.plan import Plan
    from omnicfg.report.health import Section

HELP = "Tell what this machine can serve, or whether it can serve a profile, what is missing, and how to get it."

PROFILE = Annotated[str, Argument("PROFILE", help="A profile to be served here.", words=profile_names)]
MODEL = Annotated[
    str | None, Option("--model", help="The model to be served: a directory tells how much memory it needs.")
]
ENGINE = Annotated[
    str | None,
    Option("--engine", choices=("bundled", "vllm-omni"), help="The engine to serve it with. Else bundled."),
]
FORMAT = Annotated[
    str,
    Option("--format", choices=("text", "json"), help="How to print it; json has everything that was looked at."),
]


def run(
    profile: PROFILE = "",
    platform: PLATFORM_OR_CUDA = None,
    model: MODEL = None,
    engine: ENGINE = None,
    pipeline: PIPELINE = None,
    overlays: OVERLAYS = None,
    settings: SETTINGS = None,
    format: FORMAT = "text",
) -> int:
    """Exit code: 0 where the profile, or without one anything, can be served here; else 1."""
    from omnicfg.commands._serving import checked_plan
    from omnicfg.compiler import check_platform
    from omnicfg.doctor.checks import Status, sections
    from omnicfg.doctor.facts import facts
    from omnicfg.report.progress import working

    if not profile:
        texts = {"--platform": platform, "--model": model, "--engine": engine, "--pipeline": pipeline}
        unread = {**texts, "--overlay": overlays, "--set": settings, **confine.given()}
        hint = "Without a profile it means nothing: `omnicfg doctor PROFILE ...`."
        refuse_unread("doctor", unread, hint)
    platform, engine = platform or "cuda", engine or "bundled"
    check_platform(platform)
    plan = None
    if model is not None and not model.strip():
        raise UsageError("`--model` is empty", "Give it a value, or leave it out.")
    if profile:
        plan = checked_plan(profile, platform, overlays or [], settings or [], pipeline, model, engine)
        if plan is None:
            return 1
    with working("looking at the devices and at what is installed"):
        found = facts()
        told: list[Section] = list(sections(found))
        asked = _engines(found) if plan is None else [_plan(plan, engine, found, model)]
    fit: dict[str, bool] = {}
    for name, checks in asked:
        title = f"engine {name}" if plan is None else f"{name}, engine {engine}"
        told.append((title, checks))
        fit[name] = all(check.status is not Status.PROBLEM for check in checks)
    _print(found, told, fit, plan is not None, format)
    return int(not any(fit.values()))


def _engines(found: Facts) -> list[Section]:
    from omnicfg.doctor.verdict import engine_checks
    from omnicfg.serve import engines

    return [(name, list(engine_checks(name, found)) or [_startable(found)]) for name in engines.names()]


def _plan(plan: Plan, engine: str, found: Facts, model: str | None) -> Section:
    """What stands in the way of a plan; where nothing does, that."""
    from omnicfg.doctor.verdict import plan_checks

    return plan.profile, list(plan_checks(plan, engine, found, _model(plan, model))) or [_startable(found)]


def _model(plan: Plan, asked: str | None) -> Model:
    """What is known here of the model; nothing is downloaded. Raises :class:`UsageError` for one that is none."""
    from omnicfg import models
    from omnicfg.catalog.upstream import pipelines
    from omnicfg.commands._serving import checkpoint_of
    from omnicfg.doctor.verdict import Model
    from omnicfg.resources.checkpoint import stage_config
    from omnicfg.serve.preflight import model_problems, require

    reference = asked if asked is not None else pipelines()[plan.pipeline].get("default_model")
    if reference is None:
        return Model()
    if models.is_builtin(reference):
        return Model(models.location(reference), models.config(reference), is_ours=True)
    checkpoint = checkpoint_of(reference)
    require(model_problems(checkpoint))
    directory = Path(checkpoint)
    return Model(directory, stage_config(directory, plan.stages[0])) if directory.is_dir() else Model()


def _startable(found: Facts) -> Check:
    from omnicfg.doctor.checks import Check, Status

    where = "on the CPU" if found.machine.serves_on_cpu else f"on {', '.join(found.machine.gpus)}"
    return Check(Status.OK, f"can be started {where}")


def _print(found: Facts, told: list[Section], fit: dict[str, bool], is_plan: bool, format: str) -> None:
    from omnicfg.report.health import health_data, render_health
    from omnicfg.report.terminal import Style, has_colour, width_of

    if format == "json":
        from omnicfg.report.json import dumps

        sys.stdout.write(dumps(health_data(found, told, fit)))
        return
    style, width = Style(has_colour(sys.stdout)), width_of(sys.stdout)
    sys.stdout.write(render_health(told, _verdict(told, fit, is_plan), style, width))


def _verdict(told: list[Section], fit: dict[str, bool], is_plan: bool) -> str:
    """The last line, in one sentence."""
    can = [name for name, fits in fit.items() if fits]
    if not is_plan:
        return f"This machine can serve with {' and '.join(can)}." if can else "This machine cannot serve."
    (name,) = fit
    if not can:
        return f"This machine cannot serve {name}."
    known = all(check.status == "ok" for check in told[-1][1])
    return f"This machine can serve {name}{'' if known else ', as far as can be told'}."
