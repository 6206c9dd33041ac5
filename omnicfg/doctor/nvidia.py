"""What the NVIDIA driver says of its devices, asked of its own tool under a time limit: a driver may hang."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

LIMIT_S: Final = 15.0
"""On a machine with eight devices and no persistence daemon the tool takes several seconds."""
_FIELDS: Final = ("index", "name", "uuid", "memory.total", "memory.free", "driver_version", "compute_cap")
_MIB: Final = 2**20
_NODES: Final = Path("/dev")
_CUDA: Final = r"CUDA(?: \w+)? Version\s*:\s*(\d+)\.(\d+)"


@dataclass(frozen=True, slots=True)
class Device:
    """One device by the driver's number; memory in bytes, ``None`` where the driver does not tell (shared memory)."""

    index: int
    name: str
    uuid: str
    total: int | None
    free: int | None
    driver: str
    compute: str


@dataclass(frozen=True, slots=True)
class Driver:
    """What came of asking. ``trouble`` says why there is no answer; ``cuda`` is the newest CUDA that it runs."""

    devices: tuple[Device, ...] = ()
    cuda: tuple[int, int] | None = None
    trouble: str | None = None


def ask_driver(limit_s: float = LIMIT_S) -> Driver:
    """The devices; none and no trouble where there is no sign of a driver at all."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        has_nodes = any(_NODES.glob("nvidia[0-9]*"))
        return Driver(trouble="there are devices (/dev/nvidia*), and no `nvidia-smi`" if has_nodes else None)
    devices = _devices(tool, limit_s)
    if isinstance(devices, Trouble):
        return Driver(trouble=devices)
    about = _answer([tool], limit_s)
    found = None if isinstance(about, Trouble) else re.search(_CUDA, about)
    return Driver(devices, (int(found[1]), int(found[2])) if found else None)


def ask_devices(limit_s: float = LIMIT_S) -> tuple[Device, ...]:
    """The devices alone; none where the driver does not answer."""
    tool = shutil.which("nvidia-smi")
    found = () if tool is None else _devices(tool, limit_s)
    return () if isinstance(found, Trouble) else found


def _devices(tool: str, limit_s: float) -> tuple[Device, ...] | Trouble:
    answer = _answer([tool, f"--query-gpu={','.join(_FIELDS)}", "--format=csv,noheader,nounits"], limit_s)
    if isinstance(answer, Trouble):
        return answer
    rows = [[cell.strip() for cell in line.split(",")] for line in answer.splitlines() if line.strip()]
    if any(len(row) != len(_FIELDS) or not row[0].isdecimal() for row in rows):
        return Trouble(f"`nvidia-smi` answers what it was not asked: {answer.strip().splitlines()[0][:200]}")
    return tuple(map(_device, rows))


class Trouble(str):
    """Why a tool gave no answer."""

    __slots__ = ()


def _device(row: Sequence[str]) -> Device:
    index, name, uuid, total, free, driver, compute = row
    return Device(int(index), name, uuid, _bytes(total), _bytes(free), driver, compute)


def _bytes(mib: str) -> int | None:
    return int(mib) * _MIB if mib.isdecimal() else None


def _answer(command: Sequence[str], limit_s: float) -> str | Trouble:
    """What a tool prints, or why it does not. What does not end is killed, and not waited for: it may be unkillable."""
    name = Path(command[0]).name
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        return Trouble(f"`{name}` cannot be started: {error.strerror}")
    try:
        out, _ = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        _kill(process)
        return Trouble(f"`{name}` gives no answer within {limit_s:g} s: the driver hangs")
    except BaseException:
        _kill(process)
        raise
    if process.returncode:
        said = " ".join(out.split())[:300]
        return Trouble(f"`{name}` fails (exit code {process.returncode}): {said or 'it says nothing'}")
    return out


def _kill(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(1)
    if process.stdout is not None:
        process.stdout.close()
