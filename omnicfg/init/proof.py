"""What `validate` will say of a first file, found out before it is written."""

from __future__ import annotations

from omnicfg.buffers import Buffers, identity
from omnicfg.check import validate
from omnicfg.diagnostics import Diagnostic, Severity
from omnicfg.init.request import Request
from omnicfg.init.text import base_reference


def findings_of(request: Request, text: str) -> list[Diagnostic]:
    """The errors of the file on its platform, as if it lay in its place. What is wrong with its base is not its own."""
    path = str(request.path)
    with Buffers({identity(request.path): text}):
        if request.base is not None and base_reference(request) is None:
            found = validate(request.base.shown, platform=request.platform, overlays=[request.path])
        else:
            found = validate(path, platform=request.platform)
    return [each for each in found if each.severity is Severity.ERROR and each.path in (path, "")]
