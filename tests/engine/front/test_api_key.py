"""A client without the key is told so before anything of its request is read, in vLLM's own words."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from omnicfg.engine.front.api_key import VARIABLE, KeyFirst
from omnicfg.engine.front.asgi import App, Message, Receive, Send

KEY = "sésame"
SENT = {
    "right": [(b"authorization", b"Bearer s\xe9same")],
    "no case": [(b"authorization", b"bEARER s\xe9same")],
    "wrong": [(b"authorization", b"Bearer guess")],
    "longer": [(b"authorization", b"Bearer s\xe9same ")],
    "another scheme": [(b"authorization", b"Basic s\xe9same")],
    "no scheme": [(b"authorization", b"s\xe9same")],
    "other bytes": [(b"authorization", KEY.encode().join([b"Bearer ", b""]))],
    "empty": [(b"authorization", b"")],
    "none": [],
    "right first": [(b"authorization", b"Bearer s\xe9same"), (b"authorization", b"Bearer guess")],
    "wrong first": [(b"authorization", b"Bearer guess"), (b"authorization", b"Bearer s\xe9same")],
}
MAY_ASK = {"right", "no case", "right first"}


def answer(check: Callable[[App], Any], method: str, path: str, headers: Any = (), root_path: str = "") -> int | bytes:
    """What comes of a request: the status of a refusal and its body, or 200 where the application has it."""
    reached: list[str] = []
    sent: list[Message] = []

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        reached.append(scope["path"])

    async def receive() -> Message:
        pytest.fail("the body is read")

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": method, "path": path, "root_path": root_path, "headers": list(headers)}
    asyncio.run(check(app)(scope, receive, send))
    if reached:
        return 200
    assert [sent[0]["status"], dict(sent[0]["headers"])[b"content-type"]] == [401, b"application/json"]
    body: bytes = sent[1]["body"]
    return body


def keyed(app: App) -> KeyFirst:
    return KeyFirst(app, KEY)


@pytest.mark.parametrize("sent", SENT)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v2/rerank", "/inference/v1/generate", "/cohere/v2/chat"])
def test_a_body_is_read_of_those_alone_who_send_the_key(sent: str, path: str) -> None:
    expected = 200 if sent in MAY_ASK else b'{"error":"Unauthorized"}'
    assert answer(keyed, "POST", path, SENT[sent]) == expected


@pytest.mark.parametrize("path", ["/invocations", "/tokenize", "/health", "/no/such/path", "//v1/chat/completions"])
def test_whatever_has_a_body_needs_the_key(path: str) -> None:
    assert answer(keyed, "POST", path) == b'{"error":"Unauthorized"}'
    assert answer(keyed, "POST", path, SENT["right"]) == 200


@pytest.mark.parametrize("path", ["/health", "/metrics", "/version"])
def test_looking_needs_none_where_vllm_asks_for_none(path: str) -> None:
    assert answer(keyed, "GET", path) == 200
    assert answer(keyed, "GET", "/v1/models") == b'{"error":"Unauthorized"}'


def test_without_a_key_everybody_is_let_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "")
    assert answer(KeyFirst, "POST", "/v1/chat/completions") == 200
    monkeypatch.delenv(VARIABLE)
    assert answer(KeyFirst, "POST", "/v1/chat/completions") == 200
    monkeypatch.setenv(VARIABLE, KEY)
    assert answer(KeyFirst, "POST", "/v1/chat/completions") != 200


def test_what_is_no_request_has_no_key() -> None:
    reached: list[str] = []

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        reached.append(scope["type"])

    async def receive() -> Message:
        return {}

    async def send(message: Message) -> None:
        pytest.fail(f"{message} is sent")

    asyncio.run(KeyFirst(app, KEY)({"type": "lifespan"}, receive, send))
    assert reached == ["lifespan"]


@pytest.mark.slow
def test_where_vllm_asks_for_a_key_the_answers_are_its_own() -> None:
    vllm = pytest.importorskip("vllm.entrypoints.serve.middleware.authenticate", reason="comes with the extra cpu")
    for method, path, root_path in (
        ("POST", "/v1/chat/completions", ""),
        ("GET", "/v1/models", ""),
        ("DELETE", "/v2/x", ""),
        ("OPTIONS", "/v1/chat/completions", ""),
        ("GET", "/health", ""),
        ("GET", "/api/v1/models", "/api"),
        ("GET", "/api/health", "/api"),
        ("GET", "/v1", "/v1"),
    ):
        for name, headers in SENT.items():
            theirs = answer(lambda app: vllm.AuthenticationMiddleware(app, [KEY]), method, path, headers, root_path)
            assert answer(keyed, method, path, headers, root_path) == theirs, (method, path, name)
    assert json.loads(answer(keyed, "POST", "/v1/x")) == {"error": "Unauthorized"}  # type: ignore[arg-type]
