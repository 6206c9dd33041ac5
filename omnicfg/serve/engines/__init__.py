"""The engines that ``omnicfg serve`` can start, one module each (``vllm-omni`` is ``vllm_omni.py``)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, cast

from omnicfg.diagnostics import Diagnostic
from omnicfg.errors import UsageError
from omnicfg.registry import module_spelt, spelt_names
from omnicfg.serve.launch import Launch, Request
from omnicfg.serve.machine import Machine
from omnicfg.serve.supervise import Say


class Engine(Protocol):
    """What an engine's module offers."""

    def refusals(self, request: Request) -> Iterator[Diagnostic]:
        """Why this engine cannot serve the plan, on any machine."""

    def problems(self, request: Request, machine: Machine) -> Iterator[Diagnostic]:
        """Why it cannot be started on this machine."""

    def launch(self, request: Request, machine: Machine) -> Launch:
        """What will be started. Starts and writes nothing."""

    def start(self, launch: Launch, request: Request, ready: Say, notice: Say) -> None:
        """Starts it, returns when it was stopped; raises :class:`ServeError` where it ends by itself."""


def names() -> tuple[str, ...]:
    """The engines' names as options spell them."""
    return spelt_names(__name__)


def engine(name: str) -> Engine:
    """The engine of that name. Raises :class:`UsageError`."""
    if name not in names():
        raise UsageError(f"unknown engine `{name}`", f"Engines: {', '.join(names())}.")
    return cast(Engine, module_spelt(__name__, name))
