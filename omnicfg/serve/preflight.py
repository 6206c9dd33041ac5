"""What can be known to go wrong before anything is started; a check yields diagnostics, starts nothing."""

from __future__ import annotations

import errno
import os
import re
import shutil
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from omnicfg.diagnostics import Diagnostic, Severity
from omnicfg.errors import OmnicfgError
from omnicfg.files import expanded
from omnicfg.plan import StagePlan
from omnicfg.resources.placement import first_devices
from omnicfg.resources.sizes import gib
from omnicfg.serve.install_cpu import TORCH_INDEX, broken_companions
from omnicfg.serve.machine import Machine
from omnicfg.serve.processes import listeners
from omnicfg.variables import can_be_named, can_hold

SERVED_VLLM: Final = "0.32.0"
PLUGIN: Final = "omnicfg"
"""The name of the engine's entry point in the group ``vllm.general_plugins``."""
INSTALL_CPU: Final = "python -m omnicfg.serve.install_cpu"
_HOST_HELP: Final = "`--host` takes an address of this machine; 0.0.0.0 means all of them."
_HUB_ID: Final = re.compile(r"\w[\w.-]*/\w[\w.-]*")


def problem(message: str, help: str | None = None) -> Diagnostic:
    """A reason not to start."""
    return Diagnostic("OC000", "serve", Severity.ERROR, message, help=help)


def require(problems: Iterable[Diagnostic]) -> None:
    """Raises one error that carries all the problems; nothing where there are none."""
    found = list(problems)
    if found:
        raise OmnicfgError(found)


def vllm_problems(machine: Machine) -> Iterator[Diagnostic]:
    """vLLM is missing, is of another version, or stands beside a torchvision that breaks it."""
    on_cpu = f"`{INSTALL_CPU}` (or `pip install 'omnicfg[cpu]' --extra-index-url {TORCH_INDEX}`)"
    on_cuda = "`pip install 'omnicfg[cuda]'`"
    if machine.vllm is None:
        yield problem(
            "vLLM is not installed in this environment",
            f"On an NVIDIA GPU: {on_cuda}; on the CPU: {on_cpu}.",
        )
    elif machine.vllm.version != SERVED_VLLM:
        yield problem(
            f"vLLM {machine.vllm.version} is installed; the bundled engine runs on {SERVED_VLLM}",
            on_cpu if machine.vllm.cpu else on_cuda,
        )
    elif machine.vllm.cpu:
        broken = broken_companions()
        if broken:
            names = " and ".join(broken)
            yield problem(
                f"{names} cannot be imported beside this torch, so vLLM will not start",
                f"`{INSTALL_CPU} --repair`",
            )


def plugin_problems() -> Iterator[Diagnostic]:
    """vLLM would not find the engine's plugin, by which a model keeps hidden states."""
    if not any(point.name == PLUGIN for point in metadata.entry_points(group="vllm.general_plugins")):
        yield problem(
            "omnicfg is not installed in this environment, only importable, so vLLM finds no plugin of it",
            "`pip install -e .` in the checkout, or `pip install omnicfg`.",
        )


def environment_problems(stages: Iterable[StagePlan]) -> Iterator[Diagnostic]:
    """A variable of a stage's ``env`` that no process can have."""
    for stage in stages:
        for name, value in (stage.runtime.value("env") or {}).items():
            if not (can_be_named(name) and can_hold(value)):
                yield problem(
                    f"no process can have the variable {str(name)!r} of stage {stage.stage_id}'s `env`",
                    "A name is not empty and has no `=`; neither it nor its value has a NUL character.",
                )


def device_problems(devices: Mapping[int, Sequence[int]], machine: Machine) -> Iterator[Diagnostic]:
    """A device that a stage (by its id) names is not there. On the CPU, devices mean nothing."""
    if machine.serves_on_cpu:
        return
    if not machine.gpus:
        yield problem(
            "this vLLM is built for CUDA, and no NVIDIA device is visible here",
            f"`nvidia-smi` and CUDA_VISIBLE_DEVICES tell why; to serve on the CPU instead: `{INSTALL_CPU}`.",
        )
        return
    shown = ", ".join(f"{number} ({name})" for number, name in enumerate(machine.gpus))
    for stage_id, asked in devices.items():
        missing = [device for device in asked if device >= len(machine.gpus)]
        if missing:
            yield problem(
                f"stage {stage_id} asks for device {', '.join(map(str, missing))}; visible here: {shown}",
                f"Choose others with `--set 'stages.{stage_id}.devices=\"0\"'`, or widen CUDA_VISIBLE_DEVICES.",
            )


def memory_problems(stages: Iterable[StagePlan], machine: Machine) -> Iterator[Diagnostic]:
    """The share of a device's memory that a stage asks for is taken already: vLLM would not start."""
    for stage in stages:
        share = stage.arg("gpu_memory_utilization")
        if not isinstance(share, int | float):
            continue
        for number in first_devices(stage):
            device = machine.device(number)
            if device is None or device.total is None or device.free is None or share * device.total <= device.free:
                continue
            shown = f"{share:.0%} of device {number} ({device.name})"
            yield problem(
                f"stage {stage.stage_id} ({stage.model_stage}) asks for {shown}, which is "
                f"{gib(int(share * device.total))}, and {gib(device.free)} is free",
                "End what uses it (`nvidia-smi` lists it), or lower "
                f"`--set stages.{stage.stage_id}.gpu_memory_utilization=...`.",
            )


def compiler_problems(stage: StagePlan, machine: Machine) -> Iterator[Diagnostic]:
    """vLLM would compile the model for the CPU (torch.compile), and there is no compiler that it could use."""
    config = stage.arg("compilation_config")
    mode = config.get("mode") if isinstance(config, dict) else None
    compiles = not stage.arg("enforce_eager") and mode not in {0, "NONE"} and stage.arg("optimization_level") != 0
    compiler = os.environ.get("CXX", "g++")
    if machine.serves_on_cpu and compiles and shutil.which(compiler) is None:
        yield problem(
            f"vLLM compiles this model for the CPU, and there is no C++ compiler here (`{compiler}`)",
            "Install one, or go without: `--set stages.0.enforce_eager=true`.",
        )


def port_problems(host: str, port: int) -> Iterator[Diagnostic]:
    """The address cannot be listened on."""
    try:
        _listen_once(host, port)
    except UnicodeError:  # before the resolver is asked
        yield problem(f"`{host}` is no name that a machine can have", _HOST_HELP)
    except OSError as error:
        user = _user(port) if error.errno == errno.EADDRINUSE else ""
        yield problem(f"{host}:{port} cannot be listened on: {error.strerror or error}{user}", _port_help(error))


def _user(port: int) -> str:
    """Who listens there, as far as this user may know."""
    listening = listeners(port)
    return f", by process {listening[0].pid} ({listening[0].name})" if listening else ""


def free_port(host: str) -> int:
    """A port of that address which nothing listens on now."""
    return _listen_once(host, 0)


def addresses_of(host: str, port: int) -> list[tuple[socket.AddressFamily, tuple[Any, ...]]]:
    """Every address that a host stands for, as sockets have it. Raises what the resolver raises."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(family, address) for family, _, _, _, address in found]


def _listen_once(host: str, port: int) -> int:
    """The port of the first address that can be listened on; none of them may be in use."""
    errors: list[OSError] = []
    ports: list[int] = []
    for family, address in addresses_of(host, port):
        try:
            ports.append(_listen(family, address))
        except OSError as error:
            errors.append(error)
    in_use = [error for error in errors if error.errno == errno.EADDRINUSE]
    if in_use or not ports:
        raise [*in_use, *errors][0]
    return ports[0]


def _listen(family: socket.AddressFamily, address: tuple[Any, ...]) -> int:
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen()
        return int(listener.getsockname()[1])


def _port_help(error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return _HOST_HELP
    return "Stop what listens there, or choose another with `--port` (0 takes a free one)."


def model_problems(model: str) -> Iterator[Diagnostic]:
    """The model is neither a directory with a config.json nor something that can be had from the hub."""
    directory = expanded(model)
    if model and directory.is_dir():
        if not (directory / "config.json").is_file():
            yield problem(f"`{model}` holds no config.json, so it is no model", "Name the directory of a checkpoint.")
    elif not is_hub_id(model):
        yield problem(
            f"there is no model `{model}`: neither a directory nor the id of one on the Hugging Face hub",
            "`--model` takes a directory, an id such as Qwen/Qwen3-0.6B, or builtin:tiny-omni.",
        )
    elif hub_is_offline() and not hub_cache_of(model).is_dir():
        yield problem(
            f"`{model}` is not in {hub_cache_of(model).parent}, and the hub is switched off here",
            "Unset HF_HUB_OFFLINE, or name a directory with `--model`.",
        )


def is_hub_id(model: str) -> bool:
    """Whether a text can be the id of a model on the Hugging Face hub: ``Qwen/Qwen3-0.6B``."""
    return _HUB_ID.fullmatch(model) is not None


def hub_is_offline() -> bool:
    """Whether the environment tells the Hugging Face libraries to stay off the network."""
    truths = {"1", "true", "yes", "on"}
    return any(os.environ.get(name, "").lower() in truths for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"))


def hub_cache_of(model: str) -> Path:
    """Where the Hugging Face hub's library keeps a model, by its environment variables."""
    home = Path(os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface")
    cache = expanded(os.environ.get("HF_HUB_CACHE") or home / "hub")
    return cache / f"models--{model.replace('/', '--')}"
