"""Errors carry their diagnostics: callers get data, the command line renders it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from omnicfg.tree import Mark

if TYPE_CHECKING:
    from omnicfg.diagnostics import Diagnostic


class OmnicfgError(Exception):
    """Base of every error that omnicfg raises on purpose; ``diagnostics`` says what is wrong and where."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__("\n".join(_one_line(diagnostic) for diagnostic in self.diagnostics))


class ResolveError(OmnicfgError):
    """A profile that cannot be compiled."""


class UsageError(OmnicfgError):
    """A request that cannot be carried out: an unknown name, a bad option, a missing file."""

    def __init__(self, message: str, help: str | None = None, *, name: str = "usage") -> None:
        from omnicfg.diagnostics import Diagnostic, Severity  # where nothing is wrong, none is needed

        super().__init__([Diagnostic("OC000", name, Severity.ERROR, message, help=help)])


class ServeError(UsageError):
    """A server that cannot be started on this machine, or that died."""

    def __init__(self, message: str, help: str | None = None) -> None:
        super().__init__(message, help, name="serve")


def _one_line(diagnostic: Diagnostic) -> str:
    where = Mark(diagnostic.path, diagnostic.line, diagnostic.column)
    text = f"{diagnostic.code} {diagnostic.message}"
    return f"{where}: {text}" if diagnostic.path else text
