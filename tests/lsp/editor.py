"""An editor for tests: a real client that starts a language server and talks to it over its standard streams."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient

T = TypeVar("T")
TIMEOUT_S = 60.0
OMNICFG = (sys.executable, "-m", "omnicfg.cli", "lsp")


class Editor:
    """Calls block until the server has answered. ``published`` holds the last diagnostics of each document.

    ``settings`` are what the editor is configured with, by section.
    """

    def __init__(
        self,
        encodings: Sequence[str] = ("utf-16",),
        *,
        watches: bool = False,
        command: Sequence[str] = OMNICFG,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.published: dict[str, lsp.PublishDiagnosticsParams] = {}
        self.registered: list[lsp.Registration] = []
        self.versions: dict[str, int] = {}
        self._encodings = encodings
        self._watches = watches
        self._command = command
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._news = threading.Condition()
        self.client = LanguageClient("an editor of the tests", "1")

        @self.client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)  # type: ignore[untyped-decorator]
        def publish(params: lsp.PublishDiagnosticsParams) -> None:
            with self._news:
                self.published[params.uri] = params
                self._news.notify_all()

        @self.client.feature(lsp.CLIENT_REGISTER_CAPABILITY)  # type: ignore[untyped-decorator]
        def register(params: lsp.RegistrationParams) -> None:
            self.registered += params.registrations

        @self.client.feature(lsp.WORKSPACE_CONFIGURATION)  # type: ignore[untyped-decorator]
        def configuration(params: lsp.ConfigurationParams) -> list[Any]:
            return [(settings or {}).get(item.section or "") for item in params.items]

    def __enter__(self) -> Self:
        self._thread.start()
        self._do(self.client.start_io(*self._command))
        watched = lsp.DidChangeWatchedFilesClientCapabilities(dynamic_registration=self._watches)
        capabilities = lsp.ClientCapabilities(
            workspace=lsp.WorkspaceClientCapabilities(configuration=True, did_change_watched_files=watched),
            general=lsp.GeneralClientCapabilities(position_encodings=list(self._encodings)),
        )
        self.server = self._do(self.client.initialize_async(lsp.InitializeParams(capabilities=capabilities)))
        self.client.initialized(lsp.InitializedParams())
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._do(self.client.shutdown_async(None))
        self.client.exit(None)
        self._do(self.client.stop())  # type: ignore[no-untyped-call]
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(TIMEOUT_S)
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(TIMEOUT_S)

    def _wait(self, path: Path, is_there: Callable[[lsp.PublishDiagnosticsParams], bool]) -> list[lsp.Diagnostic]:
        def published() -> bool:
            return path.as_uri() in self.published and is_there(self.published[path.as_uri()])

        with self._news:
            assert self._news.wait_for(published, TIMEOUT_S), self.published.get(path.as_uri(), "nothing was published")
            return list(self.published[path.as_uri()].diagnostics)

    def until(self, path: Path, codes: Sequence[str]) -> list[lsp.Diagnostic]:
        """The diagnostics of a document, once their codes are these."""
        return self._wait(path, lambda params: [each.code for each in params.diagnostics] == list(codes))

    def open(self, path: Path, text: str | None = None) -> list[lsp.Diagnostic]:
        """Open a document with the text of its file, or with another one; its diagnostics."""
        uri, version = path.as_uri(), self.versions.get(path.as_uri(), 0) + 1
        self.versions[uri] = version
        shown = path.read_text(encoding="utf-8") if text is None else text
        item = lsp.TextDocumentItem(uri, "yaml", version, shown)
        self.published.pop(uri, None)  # not every server says of which version it speaks
        self._send(lambda: self.client.text_document_did_open(lsp.DidOpenTextDocumentParams(item)))
        return self._wait(path, lambda params: params.version in (version, None))

    def type(self, path: Path, text: str) -> list[lsp.Diagnostic]:
        """Change the text of a document; its diagnostics."""
        uri = path.as_uri()
        self.versions[uri] += 1
        document = lsp.VersionedTextDocumentIdentifier(self.versions[uri], uri)
        change = lsp.DidChangeTextDocumentParams(document, [lsp.TextDocumentContentChangeWholeDocument(text)])
        self._send(lambda: self.client.text_document_did_change(change))
        return self._wait(path, lambda params: params.version == self.versions[uri])

    def close(self, path: Path) -> None:
        """Close a document."""
        closing = lsp.DidCloseTextDocumentParams(lsp.TextDocumentIdentifier(path.as_uri()))
        self._send(lambda: self.client.text_document_did_close(closing))

    def changed_on_disk(self, path: Path) -> None:
        """Tell that a file has changed."""
        change = lsp.FileEvent(path.as_uri(), lsp.FileChangeType.Changed)
        params = lsp.DidChangeWatchedFilesParams([change])
        self._send(lambda: self.client.workspace_did_change_watched_files(params))

    def _send(self, notify: Any) -> None:
        self._loop.call_soon_threadsafe(notify)

    def hover(self, path: Path, line: int, character: int) -> lsp.Hover | None:
        """What is shown at a position (from 0)."""
        asked = lsp.HoverParams(lsp.TextDocumentIdentifier(path.as_uri()), lsp.Position(line, character))
        return self._do(self.client.text_document_hover_async(asked))

    def completions(self, path: Path, line: int, character: int) -> dict[str, str]:
        """The documentation of each completion that is offered at a position (from 0), by its label."""
        asked = lsp.CompletionParams(lsp.TextDocumentIdentifier(path.as_uri()), lsp.Position(line, character))
        found = self._do(self.client.text_document_completion_async(asked))
        items = found.items if isinstance(found, lsp.CompletionList) else found or ()
        texts = {each.label: each.documentation for each in items}
        return {
            label: text.value if isinstance(text, lsp.MarkupContent) else text or "" for label, text in texts.items()
        }

    def definition(self, path: Path, line: int, character: int) -> list[tuple[str, int, int]]:
        """File name, line and character (from 0) of each place that "go to definition" offers."""
        asked = lsp.DefinitionParams(lsp.TextDocumentIdentifier(path.as_uri()), lsp.Position(line, character))
        found = self._do(self.client.text_document_definition_async(asked))
        assert isinstance(found, list)
        places = [each for each in found if isinstance(each, lsp.Location)]
        return [(each.uri.rpartition("/")[2], each.range.start.line, each.range.start.character) for each in places]

    def actions(self, path: Path, line: int, only: Sequence[str] | None = None) -> list[lsp.CodeAction]:
        """The code actions of a line (from 0)."""
        where = lsp.Range(lsp.Position(line, 0), lsp.Position(line, 0))
        context = lsp.CodeActionContext([], None if only is None else list(only))
        asked = lsp.CodeActionParams(lsp.TextDocumentIdentifier(path.as_uri()), where, context)
        found = self._do(self.client.text_document_code_action_async(asked))
        return [each for each in found or [] if isinstance(each, lsp.CodeAction)]

    def resolve(self, action: lsp.CodeAction) -> lsp.CodeAction:
        """An action with its edit."""
        return self._do(self.client.code_action_resolve_async(action))

    def symbols(self, path: Path) -> list[lsp.DocumentSymbol]:
        """The outline of a document."""
        asked = lsp.DocumentSymbolParams(lsp.TextDocumentIdentifier(path.as_uri()))
        found = self._do(self.client.text_document_document_symbol_async(asked))
        return [each for each in found or [] if isinstance(each, lsp.DocumentSymbol)]


def applied(text: str, edit: lsp.WorkspaceEdit | None, path: Path) -> str:
    """A text (of ASCII) after the edits that are for its document."""
    assert edit is not None
    assert edit.changes is not None
    lines = text.splitlines(keepends=True)
    starts = [sum(map(len, lines[:index])) for index in range(len(lines) + 1)]

    def index(position: lsp.Position) -> int:
        return starts[position.line] + position.character

    for each in sorted(edit.changes[path.as_uri()], key=lambda each: index(each.range.start), reverse=True):
        text = text[: index(each.range.start)] + each.new_text + text[index(each.range.end) :]
    return text
