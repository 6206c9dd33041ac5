"""Whether an engine can be started here, in general or for a plan, and why not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from omnicfg.diagnostics import Diagnostic
from omnicfg.doctor.checks import Check, Status
from omnicfg.doctor.checks.computer import MORE_SHARED_MEMORY, SHARED_MEMORY
from omnicfg.doctor.facts import Facts
from omnicfg.errors import OmnicfgError
from omnicfg.plan import Plan, StagePlan
from omnicfg.resources.placement import placement_of
from omnicfg.resources.sizes import gib
from omnicfg.serve import engines, preflight
from omnicfg.serve.engines import bundled
from omnicfg.serve.launch import Request

_SEEN: Final = "cuda"
"""The platform whose devices are looked at; the CPU serves its profiles, too."""

_MORE_ROOM: Final = "A larger `gpu_memory_utilization`, a smaller `max_model_len`, or a larger `tensor_parallel_size`."


def engine_checks(name: str, facts: Facts) -> Iterator[Check]:
    """Why an engine cannot be started on this machine, whatever it is to serve."""
    if name == "bundled":
        yield from _problems(preflight.vllm_problems(facts.machine))
        if facts.machine.vllm is not None and not facts.machine.serves_on_cpu:
            yield from _problems(preflight.device_problems({}, facts.machine))
        return
    from omnicfg.serve.engines import vllm_omni

    yield from _problems(vllm_omni.version_problems(facts.machine))
    yield from _no_device(facts)


class Model(NamedTuple):
    """The model to be served: its directory, and its first stage's ``config.json``; one of ours fits everywhere.

    ``None`` for what is not on this machine.
    """

    directory: Path | None = None
    config: Mapping[str, Any] | None = None
    is_ours: bool = False


def plan_checks(plan: Plan, engine: str, facts: Facts, model: Model) -> Iterator[Check]:
    """Why this machine cannot serve a plan with an engine; first what no machine could."""
    chosen = engines.engine(engine)
    request = Request(plan, str(model.directory or ""), "", "127.0.0.1", 0, config=model.config)
    yield from _problems(chosen.refusals(request))
    yield from _problems(chosen.problems(request, facts.machine))
    if engine != "bundled":
        yield from _no_device(facts)
    if plan.platform != _SEEN:
        what = f"devices of {plan.platform} are not looked at: nothing is known of their number and memory"
        yield Check(Status.NOTE, what, f"`omnicfg doctor PROFILE --platform {_SEEN}` looks at NVIDIA's.")
        return
    served = list(bundled.started(request)) if engine == "bundled" else plan.stages
    if not facts.machine.serves_on_cpu:
        # among its problems the bundled engine has told what is missing, where it is installed
        told = engine == "bundled" and facts.machine.vllm is not None
        yield from (each for each in _devices(served, facts) if not told or each.status is Status.OK)
    if not model.is_ours:
        yield from _model(plan, served, facts, model.directory)
    yield from _shared_memory(served, facts)


def _no_device(facts: Facts) -> Iterator[Check]:
    if facts.machine.serves_on_cpu:
        hint = "The bundled engine serves small models on the CPU."
        yield Check(Status.PROBLEM, "vLLM-Omni runs on devices, and none is to be seen here", hint)


def _problems(found: Iterable[Diagnostic]) -> Iterator[Check]:
    return (Check(Status.PROBLEM, each.message, each.help) for each in found)


def _devices(stages: list[StagePlan], facts: Facts) -> Iterator[Check]:
    """Devices that are not there, and shares of memory that are taken already: vLLM starts with neither."""
    machine = facts.machine
    shares: dict[int, float] = {}
    for stage in stages:
        for device in _devices_of(stage):
            if device >= len(machine.visible):
                what = f"stage {stage.stage_id} ({stage.model_stage}) runs on device {device}"
                have = f"{len(machine.visible)} visible here" if machine.visible else "none is visible here"
                hint = f"`--set stages.{stage.stage_id}.devices=...`, or a profile for fewer devices."
                yield Check(Status.PROBLEM, f"{what}; {have}", hint)
            elif stage.stage_type == "llm":
                share = stage.arg("gpu_memory_utilization")
                shares[device] = shares.get(device, 0) + (float(share) if isinstance(share, int | float) else 0.92)
    for device, share in sorted(shares.items()):
        yield from _share(device, share, facts)


def _devices_of(stage: StagePlan) -> set[int]:
    placement = placement_of(stage)
    if placement is None:
        return {0}
    return {device for replica in placement.replicas or (placement.ids,) for device in replica}


def _share(device: int, share: float, facts: Facts) -> Iterator[Check]:
    found = facts.machine.device(device)
    if found is None or found.total is None or found.free is None:
        return
    asked = int(share * found.total)
    what = f"device {device} ({found.name}): {share:.0%} of its memory is {gib(asked)}, and {gib(found.free)} is free"
    if asked > found.free:
        hint = "End what uses it (`nvidia-smi` lists it), or lower `gpu_memory_utilization`."
        yield Check(Status.PROBLEM, what, hint)
    else:
        yield Check(Status.OK, what)


def _model(plan: Plan, stages: list[StagePlan], facts: Facts, model: Path | None) -> Iterator[Check]:
    """What the model's own files say of the memory that it needs."""
    if model is None or not (model / "config.json").is_file():
        hint = "`--model DIR` names its directory, from which that is computed."
        yield Check(Status.NOTE, "whether the model fits into memory is not known", hint)
        return
    from omnicfg.report.estimates import estimate_lines
    from omnicfg.resources.estimate import NoEstimate, estimates

    served = {stage.stage_id: stage for stage in stages}
    on_cpu = facts.machine.serves_on_cpu
    for stage_id, stage in served.items():
        total = None if on_cpu else _smallest(stage, facts)
        try:
            found = [each for each in estimates(plan, model, total) if each.stage_id == stage_id]
        except OmnicfgError as error:
            yield from _problems(error.diagnostics)
            return
        for each, line in zip(found, estimate_lines(found), strict=True):
            if isinstance(each, NoEstimate) or each.tokens is None:
                yield Check(Status.NOTE, line)
            elif each.tokens <= 0 or (each.longest is not None and each.tokens < each.longest):
                yield Check(Status.PROBLEM, line, _MORE_ROOM)
            else:
                yield Check(Status.OK, line)


def _smallest(stage: StagePlan, facts: Facts) -> int | None:
    """The memory of the stage's smallest device."""
    here = map(facts.machine.device, _devices_of(stage))
    sizes = [device.total for device in here if device is not None and device.total is not None]
    return min(sizes, default=None)


def _shared_memory(stages: list[StagePlan], facts: Facts) -> Iterator[Check]:
    processes = len(stages) + sum(len(_devices_of(stage)) - 1 for stage in stages)
    room = 0 if facts.shared_memory is None else facts.shared_memory.free
    if processes > 1 and room < SHARED_MEMORY:
        what = f"{gib(room)} of shared memory is free, and {processes} processes hand each other tensors there"
        yield Check(Status.PROBLEM, what, MORE_SHARED_MEMORY)
