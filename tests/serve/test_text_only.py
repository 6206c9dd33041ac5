"""A server whose plan has speech that it cannot make says so to whoever asks for it."""

from __future__ import annotations

import json
from collections.abc import MutableMapping
from typing import Any

import pytest

from omnicfg.serve import asgi
from omnicfg.serve.text_only import TextOnly
from tests.serve.echo import answer_of

Message = MutableMapping[str, Any]


def answer(body: bytes, path: str = "/v1/chat/completions", pieces: int = 1) -> list[Message]:
    """What the client gets of a server that gives back the body that it has read."""
    scope = {"method": "POST", "path": path}
    return answer_of(lambda app: TextOnly(app, "nothing computes stage 1"), scope, body, pieces)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/chat/completions/batch", "/invocations"])
def test_speech_is_refused_with_the_reason(path: str) -> None:
    start, body = answer(json.dumps({"messages": [], "modalities": ["text", "audio"]}).encode(), path, pieces=3)
    assert start["status"] == 400
    error = json.loads(body["body"])["error"]
    assert error["message"].endswith("nothing computes stage 1")
    assert error["param"] == "modalities"


@pytest.mark.parametrize("body", [b'{"modalities": ["text"]}', b'{"messages": []}', b"[1]", b"{", b""])
def test_everything_else_reaches_the_server_as_it_came(body: bytes) -> None:
    [message] = answer(body, pieces=2)
    assert message["body"] == body


def test_a_body_beyond_what_fits_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asgi, "BODY_MOST", 1000)
    start, _ = answer(b"x" * 1001, pieces=3)
    assert start["status"] == 413


def test_other_paths_are_not_looked_at() -> None:
    body = json.dumps({"messages": [], "modalities": ["audio"]}).encode()
    [message] = answer(body, "/v1/completions")
    assert message["body"] == body


def test_a_prompt_is_nothing_that_would_be_spoken() -> None:
    body = json.dumps({"prompt": "x", "modalities": ["audio"]}).encode()
    [message] = answer(body, "/invocations")
    assert message["body"] == body
