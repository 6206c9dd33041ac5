"""Who sends the requests of a load: one module a driver (``vllm-bench`` is ``vllm_bench.py``)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

from omnicfg.bench.loads import Load
from omnicfg.bench.prompts import Vocabulary
from omnicfg.bench.server import Server
from omnicfg.errors import UsageError
from omnicfg.registry import module_spelt, spelt_names


@dataclass(frozen=True, slots=True)
class Task:
    """A load for a server. ``directory`` is the model's, ``scratch`` a folder for what a driver writes on its way.

    ``done`` is told how many requests have been answered; with ``rows`` each asks for its hidden states.
    """

    load: Load
    server: Server
    vocabulary: Vocabulary
    directory: Path
    scratch: Path
    done: Callable[[int], None]
    rows: bool = False


class Driver(Protocol):
    """What a driver's module offers."""

    ANSWERS: frozenset[str]

    def drive(self, task: Task) -> dict[str, Any]:
        """Sends the load; what :func:`omnicfg.bench.timing.summary` tells of it. Raises :class:`ServeError`."""


def names() -> tuple[str, ...]:
    """The drivers' names as options spell them."""
    return spelt_names(__name__)


def driver(name: str) -> Driver:
    """The driver of that name. Raises :class:`UsageError`."""
    if name not in names():
        raise UsageError(f"no driver `{name}`", f"Drivers: {', '.join(names())}.")
    return cast(Driver, module_spelt(__name__, name))
