"""Sampling defaults of a plan for which vLLM has no argument, filled into requests that leave them open.

vLLM's server loads :class:`RequestDefaults` through its ``--middleware`` option, in its own process; the
defaults reach it in the environment variable :data:`VARIABLE`. A request's own value always wins. Everything
else about a request, errors included, is left to vLLM: a body that is no JSON object goes through untouched.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Final

from omnicfg.engine.front.asgi import App, Message, Receive, Send
from omnicfg.engine.front.chat import CHATS

VARIABLE: Final = "OMNICFG_REQUEST_DEFAULTS"
PATHS: Final = CHATS | {"/v1/completions"}
_SESSION: Final = "requestType"
"""The field of a request that opens or closes a session of SageMaker's, and may have no other."""
SAME: Final = {"max_tokens": ("max_tokens", "max_completion_tokens")}
"""Fields that mean the same: a default is for a request that has none of them."""

FIELDS: Final = frozenset(
    {
        "max_tokens",
        "min_tokens",
        "seed",
        "stop",
        "stop_token_ids",
        "ignore_eos",
        "include_stop_str_in_output",
        "skip_special_tokens",
        "spaces_between_special_tokens",
        "length_penalty",
        "logit_bias",
    }
)
"""The sampling parameters that chats and completions take as request fields, less those with an argument of their
own.
"""


class RequestDefaults:
    """ASGI middleware. ``defaults`` maps request fields to values; without it they are read from the environment."""

    def __init__(self, app: App, defaults: Mapping[str, Any] | None = None) -> None:
        self.app = app
        self.defaults = json.loads(os.environ.get(VARIABLE, "{}")) if defaults is None else defaults

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST" and scope["path"] in PATHS:
            receive = _FilledBody(receive, self.defaults)
        await self.app(scope, receive, send)


class _FilledBody:
    """Receives a whole request as one message with the defaults filled in.

    Nothing is read before the server asks for the body, so a request that it turns away (no API key) costs nothing.
    """

    def __init__(self, receive: Receive, defaults: Mapping[str, Any]) -> None:
        self.receive = receive
        self.defaults = defaults
        self.filled = False

    async def __call__(self) -> Message:
        if self.filled:
            return await self.receive()
        self.filled = True
        parts: list[bytes] = []
        while True:
            message = await self.receive()
            if message["type"] != "http.request":  # the client left
                return message
            parts.append(message.get("body", b""))
            if not message.get("more_body"):
                return {
                    "type": "http.request",
                    "body": fill(b"".join(parts), self.defaults),
                    "more_body": False,
                }


def fill(body: bytes, defaults: Mapping[str, Any]) -> bytes:
    """The JSON body with the defaults for the fields that it leaves out or null; any other body unchanged."""
    try:
        request = json.loads(body)
    except (ValueError, RecursionError):
        return body
    if not isinstance(request, dict) or _SESSION in request:
        return body
    missing = {
        name: value
        for name, value in defaults.items()
        if all(request.get(alias) is None for alias in SAME.get(name, (name,)))
    }
    return json.dumps({**request, **missing}).encode() if missing else body
