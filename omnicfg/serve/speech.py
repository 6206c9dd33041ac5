"""The stages behind the first one: how a plan's speech is served, or why it is not.

A plan speaks where the last of its stages gives audio, each stage reads the one before it, and the model's record names
an executor for each (``bundled.executor``). vLLM's server then listens on a socket, and the front
(``omnicfg.engine.front``) at the address that clients know.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from omnicfg.cache import user_cache
from omnicfg.catalog.capabilities import stage_record
from omnicfg.engine.front.api_key import VARIABLE as API_KEY_VARIABLE
from omnicfg.engine.front.setup import Setup
from omnicfg.engine.memory import model_dtype
from omnicfg.engine.spec import EngineSpecError, setting
from omnicfg.engine.stages import DEFAULT_CHUNK, StageOptions
from omnicfg.engine.worker import Job
from omnicfg.payload import remote_edges
from omnicfg.plan import Plan, StagePlan
from omnicfg.resources.placement import first_devices
from omnicfg.serve.launch import Launch, Request
from omnicfg.serve.machine import Machine
from omnicfg.tree import plain

_CHUNKS: Final = {
    "chunk": "codec_chunk_frames",
    "first_chunk": "initial_codec_chunk_frames",
    "context": "codec_left_context_frames",
}
_WINDOWS: Final = 4
"""Chunks that one request may be ahead of its client."""
_DEFAULT_LIMIT: Final = 8
_ENGINE_ARGS: Final = (
    "compilation_config",
    "enforce_eager",
    "gpu_memory_utilization",
    "kv_cache_memory_bytes",
    "load_format",
    "max_model_len",
    "max_num_batched_tokens",
    "moe_backend",
    "tensor_parallel_size",
)
"""What an executor that is an engine of vLLM's takes from the plan as it is."""
_FIRST_STALL_S: Final = 60.0


def speaks(plan: Plan) -> bool:
    """Whether speech comes out of a plan at all."""
    last = plan.stages[-1].tree
    return len(plan.stages) > 1 and bool(last.value("final_output")) and last.value("final_output_type") == "audio"


def silent_reason(request: Request) -> str | None:
    """Why this plan's speech is not served; ``None`` where it is, or where there is none."""
    return next(_reasons(request), None) if speaks(request.plan) else None


def _reasons(request: Request) -> Iterator[str]:
    plan = request.plan
    for before, stage in zip(plan.stages, plan.stages[1:], strict=False):
        shown = f"stage {stage.stage_id} ({stage.model_stage})"
        if _inputs(stage) != [before.stage_id]:
            yield f"{shown} does not read the stage before it and that one only"
        if "executor" not in _bundled(plan, stage):
            yield f"the bundled engine has nothing that computes {shown} of pipeline {plan.pipeline}"
        try:
            model_dtype(request.config or {}, plain(stage.engine_args))
        except EngineSpecError as error:
            yield f"{shown}: {error}"
    for edge in remote_edges(plan):
        yield f"{edge.why}; for several hosts use --engine vllm-omni"
    if not Path(request.model).is_dir() and request.config is None:
        yield f"the stages behind the first read their weights from a directory, and `{request.model}` is none"
    place = _bundled(plan, plan.stages[1]).get("voices")
    if place and request.config is not None and not _voices(request, place):
        yield f"the config.json of `{request.model}` has no {place}: it is the first stage's part of a model"
    for option, frames in _frames(plan).items():
        if frames < (least := 1 if option == "chunk" else 0):
            yield f"{_CHUNKS[option]} is {frames}, and the last stage needs {least} or more"
    if (plan.stages[0].arg("data_parallel_size") or 1) > 1:
        yield "the first stage has several replicas, and later stages read the rows of one"


def _inputs(stage: StagePlan) -> Any:
    """The stages that a stage reads, by its topology."""
    value = stage.tree.value("input_sources")
    return list(value) if isinstance(value, list | tuple) else value


def with_speech(launch: Launch, request: Request, machine: Machine, rows: Path, drain_s: float) -> Launch:
    """The front, which starts ``launch`` (vLLM at :func:`thinker_socket`) and the other stages."""
    plan, directory = request.plan, rows.parent
    jobs = tuple(_jobs(request, machine, rows))
    talker = _bundled(plan, plan.stages[1])
    voices = _voices(request, talker["voices"])
    setup = Setup(
        host=request.host,
        port=request.port,
        command=launch.command,
        thinker=str(thinker_socket(rows)),
        control=str(directory / "control.sock"),
        jobs=jobs,
        voices=tuple(voices),
        default_voice=talker["default_voice"] if talker["default_voice"] in voices else next(iter(voices), ""),
        environments=tuple(
            _environment(stage, machine, before) for before, stage in zip(plan.stages, plan.stages[1:], strict=False)
        ),
        drain_s=drain_s,
        stall_s=_FIRST_STALL_S,
        thinker_env=machine.seeing(first_devices(plan.stages[0]))
        | {name: value for name, value in launch.env.items() if name != API_KEY_VARIABLE},
    )
    text = setup.to_json()
    path = user_cache() / "fronts" / f"{hashlib.sha256(text.encode()).hexdigest()[:12]}.json"
    return Launch(
        (sys.executable, "-m", "omnicfg.engine.front", str(path)),
        {name: value for name, value in launch.env.items() if name == API_KEY_VARIABLE},
        files={**launch.files, path: text},
        notices=launch.notices,
        directory=directory,
    )


def thinker_socket(rows: Path) -> Path:
    """Where vLLM's server listens for the front."""
    return rows.with_name("thinker.sock")


def _jobs(request: Request, machine: Machine, rows: Path) -> Iterator[Job]:
    came_from = rows
    for stage in request.plan.stages[1:]:
        goes_to = rows.with_name(f"stage-{stage.stage_id}.sock")
        yield Job(
            stage=stage.stage_id,
            name=stage.model_stage,
            kind=_record(request.plan, stage, machine)["executor"],
            options=_options(request, stage, machine),
            rows_in=str(came_from),
            rows_out=str(goes_to),
            control=str(rows.with_name("control.sock")),
        )
        came_from = goes_to


def _options(request: Request, stage: StagePlan, machine: Machine) -> StageOptions:
    frames = _frames(request.plan)
    chunk = frames.get("chunk", DEFAULT_CHUNK)
    engine_args: dict[str, Any] = plain(stage.engine_args)
    return StageOptions(
        model=Path(request.model),
        record=dict(_record(request.plan, stage, machine)),
        limit=engine_args.get("max_num_seqs") or _DEFAULT_LIMIT,
        dtype=model_dtype(request.config or {}, engine_args),
        device="cpu" if machine.serves_on_cpu else "cuda",
        threads=max(1, (os.cpu_count() or 1) // 4) if machine.serves_on_cpu else None,
        async_chunk=bool(stage.arg("async_chunk")),
        sampling=stage.extras.value("default_sampling_params") or {},
        engine_args={name: engine_args[name] for name in _ENGINE_ARGS if engine_args.get(name) is not None},
        chunk=chunk,
        first_chunk=frames.get("first_chunk") or chunk,  # 0 is upstream's default: none of its own
        context=frames.get("context", 0),
        window=_WINDOWS * chunk,
    )


def _frames(plan: Plan) -> dict[str, int]:
    """How codes go to the last stage: what its connector says."""
    connectors: Mapping[str, Any] = plan.deploy.value("connectors") or {}
    named = (plan.stages[-1].extras.value("input_connectors") or {}).values()
    extra: dict[str, Any] = {}
    for name in named:
        extra |= (connectors.get(name) or {}).get("extra") or {}
    return {option: extra[key] for option, key in _CHUNKS.items() if type(extra.get(key)) is int}


def _environment(stage: StagePlan, machine: Machine, before: StagePlan) -> dict[str, str]:
    """A stage's own environment and its devices, behind which stands the one whose rows it reads."""
    env = {str(name): str(value) for name, value in (stage.runtime.value("env") or {}).items()}
    own = first_devices(stage)
    return env | (machine.seeing([*own, *first_devices(before)[:1]]) if own else {})


def _bundled(plan: Plan, stage: StagePlan) -> Mapping[str, Any]:
    found: Mapping[str, Any] = (stage_record(plan.pipeline, stage.model_stage) or {}).get("bundled", {})
    return found


def _record(plan: Plan, stage: StagePlan, machine: Machine) -> Mapping[str, Any]:
    """How the stage is run on this machine."""
    found = _bundled(plan, stage)
    return found if machine.serves_on_cpu else {**found, **found.get("on_cuda", {})}


def _voices(request: Request, place: str) -> Mapping[str, Any]:
    """The voices of a model by name, which its ``config.json`` has at that place; none where it has nothing there."""
    found = setting(request.config or {}, place)
    return found if isinstance(found, Mapping) else {}
