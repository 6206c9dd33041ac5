"""Defaults fill what a request leaves open; everything else about it reaches vLLM as it came."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from omnicfg.engine.front.asgi import Message, Receive, Send
from omnicfg.serve.request_defaults import VARIABLE, RequestDefaults, fill


@pytest.mark.parametrize(
    ("request_fields", "filled"),
    [
        ({}, {"max_tokens": 64, "seed": 7}),
        ({"seed": 1}, {"max_tokens": 64, "seed": 1}),
        ({"seed": 0, "max_tokens": None}, {"max_tokens": 64, "seed": 0}),
        ({"max_tokens": 9}, {"max_tokens": 9, "seed": 7}),
        ({"max_completion_tokens": 9}, {"max_completion_tokens": 9, "seed": 7}),
    ],
)
def test_a_requests_own_values_win(request_fields: dict[str, Any], filled: dict[str, Any]) -> None:
    assert json.loads(fill(json.dumps(request_fields).encode(), {"max_tokens": 64, "seed": 7})) == filled


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b'"text"', b"\xff\xfe", b"[" * 100_000, b'{"requestType": "NEW_SESSION"}']
)
def test_a_body_that_is_no_object_or_asks_for_no_tokens_is_left_to_vllm(body: bytes) -> None:
    assert fill(body, {"max_tokens": 64}) == body


class Recorder:
    """An ASGI application that reads the whole request, as a web framework does."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        while True:
            self.messages.append(await receive())
            if not self.messages[-1].get("more_body"):
                break


def served(path: str, messages: list[Message], method: str = "POST") -> list[Message]:
    """What the application receives of the messages that a client sends."""
    application = Recorder()
    waiting = iter(messages)

    async def receive() -> Message:
        return next(waiting)

    async def send(message: Message) -> None:
        raise AssertionError("nothing is answered here")

    scope = {"type": "http", "method": method, "path": path, "headers": []}
    asyncio.run(RequestDefaults(application, {"max_tokens": 64})(scope, receive, send))
    return application.messages


def chunks(*parts: bytes) -> list[Message]:
    return [
        {"type": "http.request", "body": part, "more_body": number < len(parts)} for number, part in enumerate(parts, 1)
    ]


def test_a_body_in_pieces_arrives_as_one() -> None:
    [message] = served("/v1/chat/completions", chunks(b'{"seed"', b": 1}"))
    assert json.loads(message["body"]) == {"seed": 1, "max_tokens": 64}
    assert not message["more_body"]


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions/batch", "/invocations"])
def test_they_hold_wherever_tokens_are_asked_for(path: str) -> None:
    [message] = served(path, chunks(b'{"prompt": "x"}'))
    assert json.loads(message["body"]) == {"prompt": "x", "max_tokens": 64}


@pytest.mark.parametrize(
    ("path", "method"), [("/v1/models", "POST"), ("/v1/completions", "GET"), ("/tokenize", "POST")]
)
def test_other_requests_are_not_touched(path: str, method: str) -> None:
    sent = chunks(b"{", b"}")
    assert served(path, sent, method) == sent


def test_a_client_that_leaves_is_reported() -> None:
    [message] = served("/v1/completions", [*chunks(b"{", b"")[:1], {"type": "http.disconnect"}])
    assert message == {"type": "http.disconnect"}


def test_the_servers_process_reads_them_from_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, '{"max_tokens": 5}')
    assert RequestDefaults(Recorder()).defaults == {"max_tokens": 5}
