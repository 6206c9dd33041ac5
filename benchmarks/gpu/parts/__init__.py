"""The parts: each module here has some in ``PARTS``."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock
from typing import Any, Final

from benchmarks.dummy_models import write_models
from benchmarks.engine.support import Budget, engine_environment
from omnicfg.registry import modules_of
from omnicfg.serve.child import child
from omnicfg.serve.processes import end_session

Table = tuple[Sequence[str], bool]
"""The lines of a table, and whether all is there and right."""
LATE: Final = 124
GRACE_S: Final = 20.0
_POLL_S: Final = 0.2


@dataclass(frozen=True)
class Context:
    """What all parts share: the folder, the time that is left, and whether small models on the CPU stand in."""

    state: Path
    budget: Budget
    rounds: int
    cpu: bool
    stop: Event
    devices: Sequence[str] = ()
    """The GPUs that may be used, as CUDA_VISIBLE_DEVICES names them."""
    loads: Sequence[str] = ()
    """Of the published text loads only these; all where none is named."""
    _lock: Lock = field(default_factory=Lock)

    def folder(self, part: str) -> Path:
        """A part's own folder."""
        path = self.state / part
        path.mkdir(parents=True, exist_ok=True)
        return path

    def model(self, name: str) -> Path:
        """A model directory of :mod:`benchmarks.dummy_models`."""
        with self._lock:
            write_models(self.state / "models", small=self.cpu)
        return self.state / "models" / name

    def run(
        self,
        command: Sequence[str],
        log: Path,
        *,
        devices: str = "0,1",
        seconds: float | None = None,
        **variables: str,
    ) -> int:
        """``python COMMAND`` on these devices, its output in ``log``; the exit code, :data:`LATE` where time was up.

        It is asked to stop before it is killed, so that it can stop what it started.
        """
        limit = Budget(min(self.budget.left, seconds or self.budget.left) - GRACE_S)
        with (
            log.open("a") as output,
            child(
                [sys.executable, *command],
                self.environment(devices) | variables,
                grace_s=GRACE_S,
                stdout=output,
                stderr=subprocess.STDOUT,
            ) as process,
        ):
            while process.poll() is None:
                if limit.left < 0 or self.stop.wait(_POLL_S):
                    end_session(process.pid, GRACE_S)
                    return LATE
            return int(process.returncode)

    def environment(self, devices: str) -> dict[str, str]:
        """A program's environment: its devices, by their places among those that this process may use."""
        places = [int(place) for place in devices.split(",") if place]
        named = [self.devices[place] for place in places if place < len(self.devices)]
        return engine_environment(self.state, PYTHONUNBUFFERED="1", CUDA_VISIBLE_DEVICES=",".join(named))


@dataclass(frozen=True)
class Part:
    """``run`` measures what is missing, ``table`` tells what is there; ``gpus`` is how many it cannot do without."""

    name: str
    run: Callable[[Context], None]
    table: Callable[[Context], Table]
    gpus: int = 1


@functools.cache
def parts() -> dict[str, Part]:
    """All parts by name."""
    return {part.name: part for module in modules_of(__name__).values() for part in module.PARTS}


def settings(values: Mapping[str, Any]) -> Iterator[str]:
    """The words of ``--set`` for each of these overrides."""
    for name, value in values.items():
        yield from ("--set", f"{name}={value}")
