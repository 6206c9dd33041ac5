"""``omnicfg lsp``: the language server, which an editor starts."""

from __future__ import annotations

import sys

from omnicfg.commands._options import ALLOW_ENV, ROOT, reading
from omnicfg.errors import UsageError

HELP = "Serve an editor over the Language Server Protocol, on standard input and output."


def run(root: ROOT = None, allow_env: ALLOW_ENV = None) -> int:
    """Runs until the editor closes the stream or says ``exit``."""
    try:
        from omnicfg.lsp.server import create
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        raise UsageError(
            "`omnicfg lsp` needs pygls, which is not installed", "Install it: `pip install 'omnicfg[lsp]'`."
        ) from None
    if sys.stdin.isatty():
        from omnicfg.diagnostics import DOCS_URL

        hint = f"How an editor is set up: {DOCS_URL}editors.md"
        raise UsageError("`omnicfg lsp` speaks to an editor, not to a terminal", hint)
    with reading(root, allow_env):
        return create().serve()
