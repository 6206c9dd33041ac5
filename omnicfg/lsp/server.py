"""The language server: :class:`~omnicfg.lsp.session.Session` behind the Language Server Protocol, by pygls.

https://microsoft.github.io/language-server-protocol/specifications/lsp/3.17/specification/
https://pygls.readthedocs.io/
"""

from __future__ import annotations

import asyncio
import difflib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, cast

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path, to_fs_path

from omnicfg import __version__
from omnicfg.diagnostics import Diagnostic, Fix, Severity
from omnicfg.lsp.outline import Symbol
from omnicfg.lsp.positions import Positions
from omnicfg.lsp.protocol import Protocol
from omnicfg.lsp.session import Place, Session, Told
from omnicfg.tree import Mark

FIX_ALL: Final = "source.fixAll.omnicfg"
WATCHED: Final = ("**/*.yaml", "**/*.yml", "**/*.json", "**/omnicfg.toml", "**/pyproject.toml")
# Keystrokes that are already waiting are taken in before a document is checked.
_PAUSE_S: Final = 0.01

_SEVERITIES: Final = {
    Severity.ERROR: lsp.DiagnosticSeverity.Error,
    Severity.WARNING: lsp.DiagnosticSeverity.Warning,
    Severity.NOTE: lsp.DiagnosticSeverity.Information,
}


class Server(LanguageServer):
    """What is open, and which documents are still to be checked."""

    def __init__(self) -> None:
        # Whole texts: deploy files are small, and clients and YAML do not agree on what ends a line.
        kind = lsp.TextDocumentSyncKind.Full
        super().__init__("omnicfg", __version__, text_document_sync_kind=kind, protocol_cls=Protocol)
        self.session = Session()
        self.uris: dict[Path, str] = {}
        self._waiting: dict[Path, None] = {}
        self._timer: asyncio.Handle | None = None

    def serve(self) -> int:
        """Serve standard input and output; the exit code. 1 where the editor says ``exit`` without ``shutdown``."""
        # pygls closes what it writes to, and the process has still to end.
        with open(os.dup(sys.stdout.fileno()), "wb") as answers:  # noqa: PTH123  # a number, no path
            self.start_io(stdout=answers)
        return cast(Protocol, self.protocol).exit_code

    def shutdown(self) -> None:
        """The stream has ended."""
        self.session.end()
        super().shutdown()  # type: ignore[no-untyped-call]  # pygls' own

    def put(self, uri: str, text: str) -> None:
        """A document was opened or changed."""
        path = path_of(uri)
        if path is None:
            return
        self.uris[path] = uri
        self.session.put(path, text)
        self.check_soon(path)

    def check_soon(self, path: Path) -> None:
        """Check what a file may affect: that file itself first, one document at a time between other messages."""
        affected = self.session.affected(path)
        self._waiting = dict.fromkeys([*affected, *self._waiting])
        self._schedule(_PAUSE_S)

    def _schedule(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._check_next) if self._waiting else None

    def _check_next(self) -> None:
        try:
            self.check_now(next(iter(self._waiting)))
        finally:
            self._schedule(0)

    def check_now(self, path: Path) -> None:
        """Check a document, and publish what is found."""
        self._waiting.pop(path, None)
        if path not in self.uris:
            return
        told = self.session.check(path)
        uri = self.uris[path]
        version = self.workspace.get_text_document(uri).version
        shown = [self._diagnostic(each, path) for each in told]
        self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, shown, version))

    def path(self, uri: str) -> Path | None:
        """The file of an open document."""
        path = path_of(uri)
        return path if path in self.uris else None

    def asked(self, params: lsp.HoverParams | lsp.DefinitionParams) -> tuple[Path, int, int] | None:
        """The place that a request is about; ``None`` in a document that is not open here."""
        path = self.path(params.text_document.uri)
        if path is None:
            return None
        return path, *self.positions(path).place(params.position.line, params.position.character)

    def settle(self, path: Path) -> None:
        """Check a document that is still waiting for it."""
        if path in self._waiting:
            self.check_now(path)

    def close(self, uri: str) -> None:
        """A document was closed: nothing is told of it any more, and the file itself counts again."""
        path = self.path(uri)
        if path is None:
            return
        affected = self.session.affected(path)
        self.session.close(path)
        del self.uris[path]
        self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, []))
        self._waiting = {each: None for each in [*affected, *self._waiting] if each in self.uris}
        self._schedule(_PAUSE_S)

    # ------------------------------------------------------------------------------------------ conversions

    def positions(self, path: Path) -> Positions:
        """The text of a file, open or not, in the encoding that the client has chosen."""
        encoding = self.workspace.position_encoding
        return Positions(self.session.text(path), str(getattr(encoding, "value", encoding) or "utf-16"))

    def range(self, place: Place) -> lsp.Range:
        """A place as the client counts."""
        start, end = self.positions(place.path).of_mark(place.mark)
        return lsp.Range(lsp.Position(*start), lsp.Position(*end))

    def location(self, place: Place) -> lsp.Location:
        """A place in a file."""
        return lsp.Location(self.uri(place.path), self.range(place))

    def uri(self, path: Path) -> str:
        """The URI of a file; as the client wrote it, where it has opened the file."""
        return self.uris.get(path) or from_fs_path(str(path.absolute())) or ""

    def _diagnostic(self, told: Told, path: Path) -> lsp.Diagnostic:
        finding, where = told
        message = finding.message + (f" ({finding.platform.replace(',', ', ')})" if finding.platform else "")
        return lsp.Diagnostic(
            self.range(Place(path, mark_of(finding))),
            message + (f"\n{finding.help}" if finding.help else ""),
            _SEVERITIES[finding.severity],
            finding.code,
            lsp.CodeDescription(finding.url),
            "omnicfg",
            related_information=[lsp.DiagnosticRelatedInformation(self.location(where), finding.name)]
            if where
            else None,
        )

    def edit(self, fix: Fix) -> lsp.WorkspaceEdit:
        """The edits of a fix, file by file."""
        changes: dict[str, list[lsp.TextEdit]] = {}
        for each in fix.edits:
            place = Place(Path(each.mark.file), each.mark)
            changes.setdefault(self.uri(place.path), []).append(lsp.TextEdit(self.range(place), each.text))
        return lsp.WorkspaceEdit(changes=changes)

    def fix_all(self, path: Path) -> lsp.WorkspaceEdit | None:
        """The edits of all safe fixes of a document; ``None`` where there are none."""
        after = self.session.fixed(path)
        if after is None:
            return None
        positions = self.positions(path)
        before = positions.text.text
        edits = [
            lsp.TextEdit(
                lsp.Range(lsp.Position(*positions.of_index(start)), lsp.Position(*positions.of_index(end))), new
            )
            for start, end, new in line_edits(before, after)
        ]
        return lsp.WorkspaceEdit(changes={self.uri(path): edits})


def path_of(uri: str) -> Path | None:
    """The file behind a URI; ``None`` for a document that is none, such as one that has never been saved."""
    path = to_fs_path(uri) if uri.startswith("file:") else None
    return Path(path) if path and "\0" not in path else None


def mark_of(finding: Diagnostic) -> Mark:
    """What a finding covers."""
    return Mark(finding.path, finding.line, finding.column, finding.end_line, finding.end_column)


def line_edits(before: str, after: str) -> list[tuple[int, int, str]]:
    """What makes one text of another, in whole lines: start and end index, and what stands there then."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    starts = [0]
    for line in old:
        starts.append(starts[-1] + len(line))
    blocks = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return [
        (starts[first], starts[last], "".join(new[start:stop]))
        for tag, first, last, start, stop in blocks
        if tag != "equal"
    ]


# ------------------------------------------------------------------------------------------------------ features


def initialized(ls: Server, _: lsp.InitializedParams) -> None:
    """Ask for word of files that change on disk, where the client gives it."""
    workspace = ls.client_capabilities.workspace
    watched = workspace.did_change_watched_files if workspace else None
    if watched is None or not watched.dynamic_registration:
        return
    options = lsp.DidChangeWatchedFilesRegistrationOptions([lsp.FileSystemWatcher(glob) for glob in WATCHED])
    method = lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES
    ls.client_register_capability(lsp.RegistrationParams([lsp.Registration("files", method, options)]))


def files_changed(ls: Server, params: lsp.DidChangeWatchedFilesParams) -> None:
    """Bases and settings: what is open and depends on them is checked again."""
    for path in filter(None, (path_of(change.uri) for change in params.changes)):
        for each in list(ls.uris) if path.suffix == ".toml" else [path]:
            ls.check_soon(each)


def opened(ls: Server, params: lsp.DidOpenTextDocumentParams) -> None:
    ls.put(params.text_document.uri, params.text_document.text)


def changed(ls: Server, params: lsp.DidChangeTextDocumentParams) -> None:
    for change in params.content_changes[-1:]:
        ls.put(params.text_document.uri, change.text)


def closed(ls: Server, params: lsp.DidCloseTextDocumentParams) -> None:
    ls.close(params.text_document.uri)


def hover(ls: Server, params: lsp.HoverParams) -> lsp.Hover | None:
    """The effective value and its origin on each platform."""
    asked = ls.asked(params)
    found = ls.session.hover(*asked) if asked else None
    if asked is None or found is None:
        return None
    text, mark = found
    return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, text), ls.range(Place(asked[0], mark)))


def definition(ls: Server, params: lsp.DefinitionParams) -> list[lsp.Location]:
    """Where else a setting is set."""
    asked = ls.asked(params)
    return [ls.location(each) for each in ls.session.definitions(*asked)] if asked else []


def symbols(ls: Server, params: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol]:
    """The outline of a profile."""
    path = ls.path(params.text_document.uri)
    return [_symbol(ls, path, each) for each in ls.session.outline(path)] if path else []


def actions(ls: Server, params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
    """The fixes of the findings on some lines, and that of all safe ones of the document."""
    path = ls.path(params.text_document.uri)
    if path is None:
        return []
    ls.settle(path)
    only = params.context.only
    positions = ls.positions(path)
    first, last = (positions.place(each.line, each.character)[0] for each in (params.range.start, params.range.end))
    found = ls.session.fixable(path, first, last) if _asks_for(only, lsp.CodeActionKind.QuickFix.value) else []
    offered = [_quick_fix(ls, finding.fix) for finding in found if finding.fix]
    if _asks_for(only, FIX_ALL) and ls.session.has_safe_fix(path):
        offered.append(lsp.CodeAction("Fix all that omnicfg can fix safely", FIX_ALL, data=params.text_document.uri))
    return [action for index, action in enumerate(offered) if action not in offered[:index]]


def resolve(ls: Server, action: lsp.CodeAction) -> lsp.CodeAction:
    """What fixing all changes is worked out when it is wanted."""
    path = ls.path(str(action.data)) if action.data else None
    if path is not None:
        action.edit = ls.fix_all(path)
    return action


def _asks_for(only: Sequence[lsp.CodeActionKind | str] | None, kind: str) -> bool:
    """Whether a kind, or one that it belongs to, is asked for."""
    asked = [str(getattr(each, "value", each)) for each in only or ()]
    return only is None or any(kind == each or kind.startswith(f"{each}.") or not each for each in asked)


def _quick_fix(ls: Server, fix: Fix) -> lsp.CodeAction:
    title = fix.title if fix.safe else f"{fix.title} (changes what runs)"
    return lsp.CodeAction(title, lsp.CodeActionKind.QuickFix, is_preferred=fix.safe, edit=ls.edit(fix))


def _symbol(ls: Server, path: Path, symbol: Symbol) -> lsp.DocumentSymbol:
    children = [_symbol(ls, path, each) for each in symbol.children]
    kind = lsp.SymbolKind.Module if symbol.children else lsp.SymbolKind.Property
    whole, name = (ls.range(Place(path, mark)) for mark in (symbol.whole, symbol.name_mark))
    return lsp.DocumentSymbol(symbol.name, kind, whole, name, children=children)


_FEATURES: Final[tuple[tuple[str, Callable[..., Any], Any], ...]] = (
    (lsp.INITIALIZED, initialized, None),
    (lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES, files_changed, None),
    (lsp.TEXT_DOCUMENT_DID_OPEN, opened, None),
    (lsp.TEXT_DOCUMENT_DID_CHANGE, changed, None),
    (lsp.TEXT_DOCUMENT_DID_CLOSE, closed, None),
    (lsp.TEXT_DOCUMENT_HOVER, hover, None),
    (lsp.TEXT_DOCUMENT_DEFINITION, definition, None),
    (lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL, symbols, None),
    (
        lsp.TEXT_DOCUMENT_CODE_ACTION,
        actions,
        lsp.CodeActionOptions([lsp.CodeActionKind.QuickFix, FIX_ALL], resolve_provider=True),
    ),
    (lsp.CODE_ACTION_RESOLVE, resolve, None),
)


def create() -> Server:
    """The server with all of its features."""
    server = Server()
    for method, handler, options in _FEATURES:
        server.feature(method, options)(handler)
    return server
