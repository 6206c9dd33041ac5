"""``--engine bundled``: stage 0 of the plan on vLLM's own OpenAI server, as a supervised child process."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from omnicfg.catalog.capabilities import stage_record
from omnicfg.catalog.vllm_args import engine_args
from omnicfg.diagnostics import Diagnostic
from omnicfg.engine.front.api_key import VARIABLE as API_KEY_VARIABLE
from omnicfg.engine.front.api_key import KeyFirst
from omnicfg.engine.sounds import VARIABLE as SOUNDS
from omnicfg.engine.spec import data_parallel_size, row_shards, rows_engine_args, shard_path, socket_path
from omnicfg.engine.stop_signals import VARIABLE as STOP_SIGNALS
from omnicfg.engine.transport import SOCKET_PATH_LIMIT
from omnicfg.first_stage import first_stage_refusals
from omnicfg.payload import rows_of, rows_record, rows_refusals
from omnicfg.plan import Plan, StagePlan
from omnicfg.resources.placement import devices_per_replica, named_devices
from omnicfg.rule import effective_session_mode
from omnicfg.serve import nodes, preflight
from omnicfg.serve.arguments import LeftOut, StageArguments, stage_arguments
from omnicfg.serve.asgi import option
from omnicfg.serve.launch import Launch, Request
from omnicfg.serve.machine import Machine, installed_version
from omnicfg.serve.media_sources import Allowed, MediaSources
from omnicfg.serve.outlasting import Outlasting
from omnicfg.serve.preflight import SERVED_VLLM, problem
from omnicfg.serve.request_defaults import FIELDS, VARIABLE, RequestDefaults
from omnicfg.serve.runtime import private, runtime_directory
from omnicfg.serve.speech import silent_reason, speaks, thinker_socket, with_speech
from omnicfg.serve.supervise import Address, Say, supervise
from omnicfg.serve.text_only import VARIABLE as NO_SPEECH
from omnicfg.serve.text_only import TextOnly
from omnicfg.serve.text_part import TextPart, text_part
from omnicfg.tree import LayerKind, plain

DRAIN_S: Final = 10
"""How long requests in flight may go on after a stop signal, where the plan has no ``shutdown_timeout``."""
_EXIT_S: Final = 20
"""How long the server may take to end after that."""

_SERVED_PLATFORM: Final = "cuda"
_CPU_CACHE: Final = {"VLLM_CPU_KVCACHE_SPACE": "1"}
"""GiB of KV cache on the CPU where neither the plan nor the environment says: vLLM would take a share of all memory."""

_SUBDIRECTORIES: Final = ("model_subdir", "tokenizer_subdir")
_HONOURED: Final = frozenset({*_SUBDIRECTORIES, "async_chunk", "session_mode", "use_v2_model_runner"})
"""Engine args that vLLM does not have and that this engine acts on, or that say nothing about a single stage.
"""


def refusals(request: Request) -> Iterator[Diagnostic]:
    """A first stage that makes no text, or whose checkpoint only vLLM-Omni can find."""
    stage = _first(request)
    for why in first_stage_refusals(request.plan):
        yield problem(why, "Use `--engine vllm-omni`.")
    if effective_session_mode(request.plan) == "duplex":
        yield problem("the bundled engine serves turns, not duplex sessions", "Use `--engine vllm-omni`.")
    for part in dict.fromkeys(stage.arg(name) for name in _SUBDIRECTORIES):  # the model's and the tokenizer's, or one
        if part and not (Path(request.model) / part).is_dir():
            yield problem(
                f"stage 0 reads `{part}` inside the model's directory; `{request.model}` has none",
                "Download the model and name its directory with `--model`.",
            )

    yield from preflight.environment_problems(started(request))
    yield from nodes.refusals(stage, request.headless)
    yield from _rows_problems(request)


def problems(request: Request, machine: Machine) -> Iterator[Diagnostic]:
    """What this machine lacks: vLLM, a device, a compiler, the plugin."""
    yield from preflight.vllm_problems(machine)
    if machine.vllm:
        asked = {stage.stage_id: named_devices(stage) for stage in started(request)}
        yield from preflight.device_problems(asked, machine)
        if not machine.serves_on_cpu:
            yield from preflight.memory_problems(started(request), machine)
        yield from preflight.compiler_problems(_first(request), machine)
        yield from nodes.problems(_first(request))
        if rows_socket(request) is not None:
            yield from preflight.plugin_problems()
    if not machine.serves_on_cpu and request.plan.platform != _SERVED_PLATFORM:
        yield problem(
            f"the bundled engine runs on NVIDIA devices and on the CPU, not on {request.plan.platform}",
            "Use `--engine vllm-omni` there.",
        )


def launch(request: Request, machine: Machine) -> Launch:
    """vLLM's server for stage 0; before it, where the plan speaks, the front that starts the other stages too."""
    rows = rows_socket(request)
    if rows is None or request.headless or not speaks(request.plan) or silent_reason(request) is not None:
        return first_stage(request, machine)
    alone = first_stage(request, machine, ["--uds", str(thinker_socket(rows))])
    return with_speech(alone, request, machine, rows, _drain_s(request))


def first_stage(request: Request, machine: Machine, address: list[str] | None = None) -> Launch:
    """vLLM's server with the compiled engine args of stage 0; it listens at the request's address or the given one."""
    stage = request.plan.to_dict()["stages"][0]
    socket = rows_socket(request)
    part = text_part(request, machine)
    stage["engine_args"] |= _rows_args(request, socket, part)
    media = Allowed.of(plain(_first(request).engine_args), part.reason if part else "")
    stage["engine_args"] |= media.engine_args()
    compiled = stage_arguments(stage, engine_args(SERVED_VLLM), SERVED_VLLM)
    defaults = _request_defaults(stage)
    environment = _environment(request, machine, defaults)
    inherited = {**os.environ, **environment}
    middleware = _middleware(request, bool(defaults), bool(inherited.get(API_KEY_VARIABLE)))
    return Launch(
        (*_server(request, address), *compiled.arguments, *_of_ours(request), *middleware),
        environment | media.environment(inherited),
        files={part.file: part.text} if part else {},
        notices=(
            *_notices(request, machine, compiled, defaults),
            *([f"text alone goes in: {part.reason}"] if part else _sound_notices(request, machine)),
            *_rows_notices(request, socket),
        ),
        directory=socket.parent if socket else None,
    )


def _server(request: Request, address: list[str] | None) -> Iterator[str]:
    """What is started, and where it listens."""
    yield from (sys.executable, "-m")
    yield "omnicfg.engine.headless" if request.headless else "vllm.entrypoints.openai.api_server"
    yield from _where(request)
    yield from address or ["--host", request.host, "--port", str(request.port)]
    if request.headless:
        yield "--headless"


def _of_ours(request: Request) -> Iterator[str]:
    """What every server gets, whatever its plan says."""
    # The hits of the prefix cache are what these profiles are about: every answer's usage shows them.
    yield "--enable-prompt-tokens-details"
    if _first(request).arg("shutdown_timeout") is None:
        yield from ("--shutdown-timeout", str(DRAIN_S))


def _middleware(request: Request, has_defaults: bool, has_key: bool) -> Iterator[str]:
    """What stands before vLLM's application: the last one before all others."""
    if has_defaults:
        yield from option(RequestDefaults)
    yield from option(MediaSources)
    if silent_reason(request):
        yield from option(TextOnly)
    yield from option(Outlasting)
    if has_key:
        yield from option(KeyFirst)


def start(launch: Launch, request: Request, ready: Say, notice: Say) -> None:
    """Runs the server until it is stopped."""
    grace_s = _drain_s(request) + _EXIT_S
    with private(launch.directory) if launch.directory else contextlib.nullcontext():
        supervise(launch, _address(request), ready, notice, grace_s, request.restarts)


def _drain_s(request: Request) -> float:
    drain_s = _first(request).arg("shutdown_timeout")
    return float(DRAIN_S if drain_s is None else drain_s)


def _address(request: Request) -> Address | None:
    """Where the server answers; ``None`` on a node that does not."""
    return None if request.headless else Address.of(request.host, request.port)


def rows_socket(request: Request) -> Path | None:
    """Where the server offers payload rows (``omnicfg.engine.shards.connect``); ``None`` where it keeps none."""
    return None if rows_record(request.plan) is None else _directory(request) / "rows.sock"


def _directory(request: Request) -> Path:
    """Named after the address; a headless node's after its number too, since it may share a machine with the other."""
    node = f"-node{nodes.number(_first(request))}" if request.headless else ""
    return runtime_directory(f"{request.host}-{request.port}{node}")


def _rows_problems(request: Request) -> Iterator[Diagnostic]:
    """Why the hidden states that a later stage reads cannot be kept for it."""
    socket = rows_socket(request)
    if socket is None:
        return
    if request.config is None and not list(preflight.model_problems(request.model)):
        yield problem(
            f"the config.json of `{request.model}` cannot be had, and it says which hidden states a later stage reads",
            "Download the model and name its directory with `--model`.",
        )
    for refusal in rows_refusals(request.plan, request.config):
        yield problem(refusal.why, "Change that, or serve with vLLM-Omni (`--engine vllm-omni`).")
    last = row_shards(request.config or {}, plain(_first(request).engine_args)) - 1
    paths = [shard_path(path, last) for path in _rows_sockets(request, socket)]
    too_long = [path for path in paths if len(os.fsencode(path)) > SOCKET_PATH_LIMIT]
    if too_long:
        yield problem(
            f"{too_long[0]}, where hidden states would be offered, is longer than a socket's {SOCKET_PATH_LIMIT} bytes",
            "Set XDG_RUNTIME_DIR to a directory of yours with a shorter name.",
        )


def _rows_sockets(request: Request, socket: Path) -> list[str]:
    """The sockets of the data-parallel replicas on this node: of the rank that consumers connect to first."""
    stage = _first(request)
    replicas = data_parallel_size(plain(stage.engine_args))
    return [socket_path(str(socket), replicas, replica) for replica in nodes.replicas_here(stage, replicas)]


def _rows_args(request: Request, socket: Path | None, part: TextPart | None) -> dict[str, Any]:
    """The engine args that switch payload rows on; none where no later stage reads any, or the model is not there."""
    if socket is None or request.config is None:
        return {}
    rows = rows_of(request.plan, request.config)
    assert rows is not None, "a plan with a socket has rows"
    own = plain(_first(request).engine_args)
    if part is None:
        return rows_engine_args(rows, request.config, own, socket=str(socket))
    own = {**own, **part.engine_args()}
    return {**part.engine_args(), **rows_engine_args(rows, part.config, own, socket=str(socket))}


def _rows_notices(request: Request, socket: Path | None) -> Iterator[str]:
    if socket is None:
        return
    rows = None if request.config is None else rows_of(request.plan, request.config)
    if rows is None:
        yield f"which hidden states a later stage reads is told by config.json, and `{request.model}` has none"
    else:
        where = ", ".join(_rows_sockets(request, socket))
        yield f"hidden states ({', '.join(rows.names)}) of requests that ask for them are at {where}"


def _sound_notices(request: Request, machine: Machine) -> Iterator[str]:
    """What the CPU's build lacks for sounds, of a model of which more than its text part is served."""
    record = stage_record(request.plan.pipeline, _first(request).model_stage) or {}
    resamples = installed_version("torchaudio") or installed_version("av")
    if machine.serves_on_cpu and "text_part" in record.get("bundled", {}) and not resamples:
        yield (
            "sounds are taken at the rate of the model's processor alone: there is nothing to resample with "
            "(`pip install 'omnicfg[audio]'`)"
        )


def _first(request: Request) -> StagePlan:
    return request.plan.stages[0]


def started(request: Request) -> tuple[StagePlan, ...]:
    """The stages that are started here: all of a plan whose speech is served, else the first one."""
    with_speech_stages = speaks(request.plan) and not request.headless and silent_reason(request) is None
    return tuple(request.plan.stages) if with_speech_stages else (_first(request),)


def _where(request: Request) -> list[str]:
    model_part, tokenizer_part = (_first(request).arg(name) for name in _SUBDIRECTORIES)
    words = ["--model", str(Path(request.model) / model_part) if model_part else request.model]
    if tokenizer_part:
        words += ["--tokenizer", str(Path(request.model) / tokenizer_part)]
    if not _first(request).arg("served_model_name"):
        words += ["--served-model-name", request.model_name]
    return words


def _request_defaults(stage: dict[str, Any]) -> dict[str, Any]:
    sampling = stage["extras"].get("default_sampling_params") or {}
    return {name: value for name, value in sampling.items() if name in FIELDS and value is not None}


def _on_cpu(request: Request) -> dict[str, str]:
    """What vLLM is told on the CPU, where neither the plan nor the environment says it.

    Of the cores it leaves one to each rank's scheduler, and another one to a connector, as NIXL needs it. Rows take no
    core, and where that leaves none to compute with, as on a machine of two, vLLM computes on all of them, in the way
    of its own scheduler (vLLM 0.32.0, ``vllm/utils/ompmultiprocessing.py``).
    """
    stage = _first(request)
    told = _CPU_CACHE if stage.arg("kv_cache_memory_bytes") is None else {}
    if rows_socket(request) is None:
        return told
    return {**told, "VLLM_CPU_NUM_OF_RESERVED_CPU": str(devices_per_replica(stage) or 1)}


def _environment(request: Request, machine: Machine, defaults: dict[str, Any]) -> dict[str, str]:
    stage = _first(request)
    own = stage.runtime.value("env") or {}
    env = {SOUNDS: "1", STOP_SIGNALS: "1"} | {str(name): str(value) for name, value in own.items()}
    if machine.serves_on_cpu:
        env |= {name: value for name, value in _on_cpu(request).items() if name not in {**os.environ, **env}}
    else:
        # A stage that names no device is left what vLLM would see: it may take more of them than its sizes tell.
        env |= {"VLLM_USE_V2_MODEL_RUNNER": str(int(bool(stage.arg("use_v2_model_runner"))))}
        env |= machine.seeing(named_devices(stage))
    env |= _plugin_environment({**os.environ, **env})
    if defaults:
        env[VARIABLE] = json.dumps(defaults)
    if reason := silent_reason(request):
        env[NO_SPEECH] = reason
    if request.api_key:
        env[API_KEY_VARIABLE] = request.api_key
    return env


def _plugin_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """vLLM loads every plugin, unless a list says which: ours belongs on it."""
    listed = environment.get("VLLM_PLUGINS")
    if listed is None or preflight.PLUGIN in listed.split(","):
        return {}
    return {"VLLM_PLUGINS": ",".join([*filter(None, listed.split(",")), preflight.PLUGIN])}


def _notices(request: Request, machine: Machine, compiled: StageArguments, defaults: dict[str, Any]) -> Iterator[str]:
    others = [f"{stage.stage_id} ({stage.model_stage})" for stage in request.plan.stages[1:]]
    silent = silent_reason(request)
    if others and (silent or not speaks(request.plan)):
        yield f"only stage 0 is served, text in and text out; not started: {', '.join(others)}"
    if silent:
        yield f"no speech: {silent}"
    yield from nodes.notices(_first(request), request.headless)
    replicas = _first(request).runtime.value("num_replicas")
    if isinstance(replicas, int) and replicas > 1:
        yield f"one of {replicas} replicas of stage 0 is started"
    if machine.serves_on_cpu:
        yield f"serving on the CPU with the values for {request.plan.platform}; devices do not count"
        if _first(request).arg("use_v2_model_runner"):
            yield "on the CPU, vLLM has Model Runner V1 only"
    else:
        yield from _mapping_notice(_first(request), machine)
    unused = [left.name for left in compiled.left_out if _is_worth_telling(left, request.plan, defaults)]
    if unused:
        yield f"without effect, since vLLM {SERVED_VLLM} has no such setting: {', '.join(unused)}"


def _is_worth_telling(left: LeftOut, plan: Plan, defaults: dict[str, Any]) -> bool:
    """Whether the profile itself asks for what is left out, and nothing else brings it about."""
    group, _, parameter = left.name.rpartition(".")
    if left.value is None or left.name in _HONOURED or (group and parameter in defaults):
        return False
    node = plan.find(f"stages.{plan.stages[0].stage_id}.{left.name}")
    return node is not None and node.layer.kind not in {LayerKind.TOPOLOGY, LayerKind.DEFAULT}


def _mapping_notice(stage: StagePlan, machine: Machine) -> Iterator[str]:
    """Says which devices are meant where this process sees only some of them."""
    everything = tuple(str(number) for number in range(len(machine.visible)))
    devices = [device for device in named_devices(stage) if device < len(machine.visible)]
    if devices and machine.visible != everything:
        pairs = [f"{device} is {machine.visible[device]}" for device in devices]
        yield f"devices count among CUDA_VISIBLE_DEVICES: {', '.join(pairs)}"
