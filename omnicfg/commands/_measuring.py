"""``bench prefix-cache`` and ``bench equality``: the arms' plans and loads, and what is measured of them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from omnicfg.errors import UsageError
from omnicfg.streams import note

if TYPE_CHECKING:
    from omnicfg.bench.arms import Arm
    from omnicfg.bench.drivers import Driver
    from omnicfg.bench.loads import Load
    from omnicfg.bench.prompts import Vocabulary
    from omnicfg.bench.setting import Subject

_EACH: Final = 4
"""Prompts of a load that are looked at for equality."""
_ROUNDS: Final = 3


class Asked(NamedTuple):
    """What is to be measured, as the options say it.

    ``table`` are the loads that they bring, none where those of the pipeline are meant; ``names`` picks some of them.
    """

    profile: str
    platform: str
    overlays: list[Path]
    settings: list[str]
    pipeline: str | None
    model: str | None
    engine: str
    arms: list[str] | None
    url: str | None
    table: tuple[Load, ...]
    names: list[str]
    driver: str
    out: Path
    command: str


class _Ready(NamedTuple):
    """What can be measured: the arms, all loads and those that some arm can take, and where prompts come from."""

    subjects: list[Subject]
    table: tuple[Load, ...]
    loads: tuple[Load, ...]
    driver: Driver
    directory: Path
    vocabulary: Vocabulary


def measure_costs(asked: Asked, rounds: int | None, api_key: str | None, seconds: int | None, format: str) -> int:
    """``bench prefix-cache``; 1 where requests failed, time was up before the end, or a plan has errors."""
    from omnicfg.bench.campaign import Campaign
    from omnicfg.bench.loads import warm_up
    from omnicfg.bench.progress import Progress
    from omnicfg.bench.store import Store

    ready = _ready(asked)
    if ready is None:
        return 1
    campaign = Campaign(
        ready.subjects,
        ready.loads,
        warm_up(ready.table, ready.loads),
        rounds or _ROUNDS,
        ready.driver,
        ready.vocabulary,
        ready.directory,
        Store.joined(asked.out, _setup(asked, ready.subjects, ready.loads)),
        Progress(),
        api_key,
        seconds,
    )
    return _told(campaign, format)


def compare_answers(asked: Asked, batch_invariant: bool, format: str) -> int:
    """``bench equality``; 1 where answers differ, or a plan has errors."""
    from tempfile import TemporaryDirectory

    from omnicfg.bench.answers import questions
    from omnicfg.bench.equality import Equality, lines, report_of
    from omnicfg.bench.progress import Progress
    from omnicfg.bench.prompts import prompts_of
    from omnicfg.bench.setting import machine_facts
    from omnicfg.files import make_directory, write_whole
    from omnicfg.interrupt import interruptible
    from omnicfg.report.json import dumps

    ready = _ready(asked)
    if ready is None:
        return 1
    if len(ready.subjects) != 2:
        raise UsageError(
            "`omnicfg bench equality` takes two arms, and starts their servers itself",
            "`--arm off:stages.0.enable_prefix_caching=false --arm on`, or no `--arm` for the cache off and on.",
        )
    one, other = ready.subjects
    posed = questions(ready.loads, [prompts_of(load, ready.vocabulary) for load in ready.loads], _EACH)
    scratch, logs = asked.out / "scratch", asked.out / "logs"
    for folder in (scratch, logs):
        make_directory(folder)
    progress = Progress()
    with interruptible(), TemporaryDirectory(dir=scratch) as aside:
        verdicts = Equality(one, other, posed, Path(aside), logs, progress, batch_invariant).run()
    progress.end()
    report = report_of(ready.subjects, verdicts, machine_facts(), asked.command)
    write_whole(asked.out / "equality.json", dumps(report))
    sys.stdout.write(dumps(report) if format == "json" else "".join(f"{line}\n" for line in lines(report)))
    return int(not report["equal"])


def _ready(asked: Asked) -> _Ready | None:
    """``None`` where a plan has errors. Raises :class:`UsageError` where nothing can be measured."""
    from omnicfg.bench import setting
    from omnicfg.bench.drivers import driver as driver_of
    from omnicfg.bench.loads import chosen, shipped
    from omnicfg.bench.prompts import Vocabulary

    subjects = _subjects(asked)
    if subjects is None:
        return None
    first = subjects[0].request
    table = asked.table or shipped(first.plan.pipeline)
    wanted = chosen(table, asked.names)
    driver = driver_of(asked.driver)
    loads = _fitting(wanted, subjects, driver.ANSWERS)
    setting.require(subjects)
    directory = _directory(first.model_name, first.model)
    return _Ready(subjects, table, loads, driver, directory, Vocabulary.of(directory, first.config or {}))


def _subjects(asked: Asked) -> list[Subject] | None:
    """The arms with their checked plans; ``None`` where one has errors."""
    from omnicfg import models
    from omnicfg.bench.setting import HOST, subject
    from omnicfg.commands._serving import checked_plan, checkpoint_of, config_of, default_model
    from omnicfg.compiler import check_platform
    from omnicfg.serve.launch import Request

    arms = _arms(asked)
    check_platform(asked.platform)
    subjects: list[Subject] = []
    for arm in arms:
        settings = [*asked.settings, *arm.settings]
        plan = checked_plan(
            asked.profile, asked.platform, asked.overlays, settings, asked.pipeline, asked.model, asked.engine
        )
        if plan is None:
            note(f"omnicfg bench: arm {arm.name} is not measured, since its plan has errors")
            return None
        reference = asked.model or default_model(plan.pipeline)
        checkpoint = str(models.materialize(reference)) if models.is_builtin(reference) else checkpoint_of(reference)
        config = config_of(reference, checkpoint, plan)
        name = Path(reference).name if Path(checkpoint).is_dir() else reference
        request = Request(plan, checkpoint, name.removeprefix(models.PREFIX), HOST, 0, config=config)
        subjects.append(subject(arm, request, asked.engine, asked.url))
    return subjects


def _arms(asked: Asked) -> tuple[Arm, ...]:
    from omnicfg.bench.arms import PREFIX_CACHE, parse_arms

    arms = parse_arms(asked.arms) if asked.arms else PREFIX_CACHE
    if asked.url is None:
        return arms
    _check_url(asked.url)
    if asked.arms is None or len(arms) != 1:
        raise UsageError(
            "`--url` is one arm, and needs its name",
            "`--url http://127.0.0.1:8091 --arm off`, then the other server with `--arm on` and the same `--out`.",
        )
    return arms


def _check_url(url: str) -> None:
    from urllib.parse import urlsplit

    from omnicfg.secrets import without_passwords

    try:
        address = urlsplit(url)
        is_server = address.scheme in ("http", "https") and bool(address.hostname) and address.port != 0
    except ValueError:
        is_server = False
    if not is_server:
        raise UsageError(f"`--url {without_passwords(url)}` is no address of a server", "`--url http://127.0.0.1:8091`")


def _fitting(wanted: tuple[Load, ...], subjects: list[Subject], answers: frozenset[str]) -> tuple[Load, ...]:
    """The loads that some arm can take; of the others it is told why not."""
    fitting = []
    for load in wanted:
        reasons = {subject.name: subject.unfit(load, answers) for subject in subjects}
        for arm, reason in reasons.items():
            if reason is not None:
                note(f"omnicfg bench: {load.name} is not measured with arm {arm}: {reason}")
        if None in reasons.values():
            fitting.append(load)
    if not fitting:
        raise UsageError("there is nothing to measure", "`--quick` has small loads, `--loads-file` takes your own.")
    return tuple(fitting)


def _directory(name: str, model: str) -> Path:
    if not Path(model).is_dir():
        raise UsageError(
            f"prompts are made of a model's token ids, and `{name}` is no directory here",
            "Download the model and name its directory with `--model`.",
        )
    return Path(model)


def _setup(asked: Asked, subjects: list[Subject], loads: tuple[Load, ...]) -> dict[str, Any]:
    """What measurements have to share to be compared; the command is only told."""
    from omnicfg.bench.arms import shown
    from omnicfg.bench.report import RUNNING

    first = subjects[0]
    plan = first.request.plan
    return {
        "kind": "prefix-cache",
        "command": asked.command,
        "profile": Path(plan.profile).name,
        "pipeline": plan.pipeline,
        "platform": plan.platform,
        "model": first.request.model_name,
        "engine": first.engine if first.url is None else RUNNING,
        "driver": asked.driver,
        "arms": {
            one.name: {
                "settings": [shown(setting) for setting in one.arm.settings],
                "alone": one.arm.alone,
                "rows": one.arm.rows,
                "plan": one.digest,
                "limits": one.limits,
            }
            for one in subjects
        },
        "loads": {load.name: load.to_dict() for load in loads},
    }


def _told(campaign: Any, format: str) -> int:
    """Measures, then writes the report and prints it."""
    from omnicfg.bench.report import failures, report_of
    from omnicfg.bench.written import show, write
    from omnicfg.interrupt import interruptible

    try:
        with interruptible():
            complete = campaign.run()
    finally:
        campaign.progress.end()
        report = report_of(campaign.store.setup, campaign.store.measurements())
        if report["measurements"]:
            write(campaign.store.folder, report)
    show(report, format)
    if not complete:
        if campaign.kept:
            note("omnicfg bench: time is up: the same command again goes on")
        else:
            note("omnicfg bench: nothing is measured: no load fits into so few `--seconds`, as far as can be foreseen")
    return int(not complete or any(map(failures, report["measurements"])))
