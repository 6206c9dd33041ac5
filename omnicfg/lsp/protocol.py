"""The protocol where pygls leaves a client without an answer, and what the process says when it ends."""

from __future__ import annotations

from typing import Any

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException, JsonRpcInvalidRequest, JsonRpcServerNotInitialized
from pygls.protocol import LanguageServerProtocol

_ALWAYS = (lsp.INITIALIZE, lsp.EXIT)


class Protocol(LanguageServerProtocol):
    """pygls' own, which answers every request: an editor waits for an answer that never comes.

    https://microsoft.github.io/language-server-protocol/specifications/lsp/3.17/specification/#lifeCycleMessages
    """

    # Where a client is between `initialize`, `shutdown` and `exit`.
    _begun = False
    _over = False
    exit_code = 0

    def structure_message(self, data: dict[str, Any]) -> Any:
        """A message as the protocol's types. A request that does not fit them is refused, by its number."""
        try:
            return super().structure_message(data)
        except JsonRpcException as error:
            if "id" in data and "method" in data:
                self._refuse(data["id"], error)
            raise

    def handle_message(self, message: Any) -> None:
        """Carry out a message, unless it comes before the session has begun or when it is over."""
        method = getattr(message, "method", None)
        wrong = None if method is None or method in _ALWAYS else self._untimely()
        if wrong is not None:
            if hasattr(message, "id"):
                self._refuse(message.id, wrong)
            return
        self._begun |= method == lsp.INITIALIZE
        self._over |= method == lsp.SHUTDOWN
        if method == lsp.EXIT:
            self.exit_code = 0 if self._over else 1
        super().handle_message(message)

    def _untimely(self) -> JsonRpcException | None:
        if self._over:
            return JsonRpcInvalidRequest("the session is shut down; only `exit` is left")
        return None if self._begun else JsonRpcServerNotInitialized("the session begins with `initialize`")

    def _refuse(self, number: int | str, error: JsonRpcException) -> None:
        self._send_response(number, error=error.to_response_error())
