"""omnicfg: compile, check, diff and serve deploy profiles of multi-stage omni models.

>>> import omnicfg
>>> plan = omnicfg.resolve("qwen3_omni_moe", platform="cuda")
>>> plan.to_dict()["stages"][0]["engine_args"]["enable_prefix_caching"]
True
"""

from __future__ import annotations

TYPE_CHECKING = False  # as type checkers take it (PEP 484); `typing` itself costs more to import than all that is here
if TYPE_CHECKING:
    from typing import Any

    from omnicfg.check import validate
    from omnicfg.compiler import resolve
    from omnicfg.confine import confined
    from omnicfg.diagnostics import Diagnostic, Severity
    from omnicfg.differences.compare import Change, diff
    from omnicfg.errors import OmnicfgError, ResolveError, ServeError, UsageError
    from omnicfg.plan import Plan

__version__ = "0.1.0"

__all__ = [
    "Change",
    "Diagnostic",
    "OmnicfgError",
    "Plan",
    "ResolveError",
    "ServeError",
    "Severity",
    "UsageError",
    "__version__",
    "confined",
    "diff",
    "resolve",
    "validate",
]

_HOMES = {
    "Change": "omnicfg.differences.compare",
    "Diagnostic": "omnicfg.diagnostics",
    "OmnicfgError": "omnicfg.errors",
    "Plan": "omnicfg.plan",
    "ResolveError": "omnicfg.errors",
    "ServeError": "omnicfg.errors",
    "Severity": "omnicfg.diagnostics",
    "UsageError": "omnicfg.errors",
    "confined": "omnicfg.confine",
    "diff": "omnicfg.differences.compare",
    "resolve": "omnicfg.compiler",
    "validate": "omnicfg.check",
}


def __dir__() -> list[str]:
    """The public names, whether they are imported yet or not: what an interactive session completes."""
    return list(__all__)


def __getattr__(name: str) -> Any:
    """Import public names on first use, so that ``import omnicfg`` costs nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module 'omnicfg' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
