"""What ``omnicfg export --to`` writes for: one module each (``vllm-omni`` is ``vllm_omni.py``), found by its name."""

from __future__ import annotations

from typing import Protocol, cast

from omnicfg.deploy_targets._workload import Workload
from omnicfg.errors import UsageError
from omnicfg.registry import module_spelt, spelt_names


class Target(Protocol):
    """What a target's module offers."""

    SERVES: bool
    """Whether what is written starts a server, for which a model and an image have to be known."""

    def render(self, workload: Workload) -> str:
        """The whole file. Raises :class:`UsageError` for what the target cannot express."""


def names() -> tuple[str, ...]:
    """The targets as ``--to`` spells them; imports none of them."""
    return spelt_names(__name__)


def target(name: str) -> Target:
    """The target of that name. Raises :class:`UsageError`."""
    if name not in names():
        raise UsageError(f"unknown target `{name}`", f"Targets: {', '.join(names())}.")
    return cast(Target, module_spelt(__name__, name))
