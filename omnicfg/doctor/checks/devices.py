"""The NVIDIA devices, their driver, and whether the installed torch fits it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from omnicfg.doctor.checks import Check, Status
from omnicfg.doctor.facts import Facts
from omnicfg.doctor.nvidia import Device
from omnicfg.resources.sizes import gib

TITLE: Final = "devices"
ORDER: Final = 2

_DRIVER: Final = (
    "Run `nvidia-smi` by itself; after an update of the driver, restart; in a container, `docker run --gpus all`."
)


def check(facts: Facts) -> Iterator[Check]:
    """Every device, those that are hidden, and what the driver is too old for."""
    driver = facts.driver
    if driver.trouble is not None:
        yield Check(Status.PROBLEM, f"the NVIDIA driver does not answer: {driver.trouble}", _DRIVER)
        return
    if not driver.devices:
        yield Check(Status.NOTE, "no NVIDIA device; small models can be served on the CPU")
        return
    for device in driver.devices:
        yield _device(device)
    cuda = "" if driver.cuda is None else f", for CUDA up to {_dotted(driver.cuda)}"
    yield Check(Status.OK, f"driver {driver.devices[0].driver}{cuda}")
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and len(facts.machine.visible) < len(driver.devices):
        shown = ", ".join(facts.machine.visible) or "none"
        hint = "`unset CUDA_VISIBLE_DEVICES`, or name more of them."
        yield Check(Status.NOTE, f"CUDA_VISIBLE_DEVICES={visible} leaves devices {shown} to be seen", hint)
    yield from _torch(facts)


def _device(device: Device) -> Check:
    memory = ""
    if device.total is not None:
        memory = f", {gib(device.total)} of memory"
        memory += "" if device.free is None else f", {gib(device.free)} of it free"
    compute = f", compute capability {device.compute}" if device.compute[:1].isdecimal() else ""
    return Check(Status.OK, f"device {device.index}: {device.name}{memory}{compute}")


def _torch(facts: Facts) -> Iterator[Check]:
    """Within one major version of CUDA any driver will do (NVIDIA's "CUDA Compatibility", minor versions)."""
    built, driven = facts.torch_cuda, facts.driver.cuda
    if built is not None and driven is not None and driven[0] < built[0]:
        what = f"torch is built for CUDA {_dotted(built)}, and the driver runs CUDA up to {_dotted(driven)}"
        yield Check(Status.PROBLEM, what, f"Install a driver for CUDA {built[0]}, or a torch for CUDA {driven[0]}.")


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
