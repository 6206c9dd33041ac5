"""The key of a server, asked for before anything of a request is read.

vLLM's server has a check of its own (vLLM 0.32.0, ``vllm/entrypoints/serve/middleware/authenticate.py``), but what is
given to it by ``--middleware`` stands before that: what reads bodies there would read anybody's. And the check is for
some paths alone: ``/invocations`` answers the same chats as ``/v1/chat/completions`` without a key.
"""

from __future__ import annotations

import os
import secrets
from typing import Final

from omnicfg.engine.front.asgi import JSON, App, Message, Receive, Send, respond

VARIABLE: Final = "VLLM_API_KEY"
"""Keys travel in the environment, where other users of the machine cannot read them."""
GUARDED: Final = ("/v1", "/v2", "/inference", "/cohere")
"""What vLLM guards, whatever is done there. A preflight request of a browser (OPTIONS) never has a key."""
WITHOUT_BODY: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods whose requests have no body that anything here reads."""
_REFUSAL: Final = b'{"error":"Unauthorized"}'
"""vLLM's words, so that clients are told the same by whichever check they meet."""


class KeyFirst:
    """ASGI: ``app`` for those who send the key, and for those who only look where none is asked for.

    Others get a status of 401, and their bodies are not read. ``key`` is that of the environment where none is given;
    without one everybody is let through.
    """

    def __init__(self, app: App, key: str | None = None) -> None:
        self.app = app
        self._key = (os.environ.get(VARIABLE, "") if key is None else key).encode()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if self._key and scope["type"] == "http" and _is_guarded(scope) and not self._has_key(scope):
            await respond(send, 401, _REFUSAL, JSON)
        else:
            await self.app(scope, receive, send)

    def _has_key(self, scope: Message) -> bool:
        """By the first such header, whose text is Latin-1, as vLLM's server reads it."""
        sent = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        scheme, _, key = sent.decode("latin-1").partition(" ")
        return scheme.lower() == "bearer" and secrets.compare_digest(key.encode(), self._key)


def _is_guarded(scope: Message) -> bool:
    """Whether a request needs the key: all below vLLM's guarded paths, and whatever else could have a body."""
    path = scope["path"].removeprefix(scope.get("root_path", ""))
    guarded: bool = path.startswith(GUARDED) and scope["method"] != "OPTIONS"
    return guarded or scope["method"] not in WITHOUT_BODY
