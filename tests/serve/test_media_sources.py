"""Requests name pictures and sounds; a server reads those that its plan lets it read, and says so of others."""

from __future__ import annotations

import gc
import json
import tracemalloc
from collections.abc import MutableMapping
from typing import Any

import pytest

from omnicfg.serve import asgi, media_sources
from omnicfg.serve.media_sources import NOBODY, Allowed, MediaSources
from tests.serve.echo import answer_of

Message = MutableMapping[str, Any]
PICTURE = "data:image/png;base64,iVBORw0KGgo="


def answer(body: Any, allowed: Allowed = Allowed()) -> list[Message]:  # noqa: B008
    """What the client gets of a server that gives back what it has read."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return answer_of(lambda app: MediaSources(app, allowed), {"method": "POST", "path": "/v1/x"}, raw, 2)


def asked(kind: str, address: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [{"type": kind, kind: {"url": address}}]}]}


def refusal(body: Any, allowed: Allowed = Allowed()) -> str:  # noqa: B008
    start, sent = answer(body, allowed)
    assert start["status"] == 400
    error: dict[str, Any] = json.loads(sent["body"])["error"]
    assert error["type"] == "BadRequestError"
    return str(error["message"])


@pytest.mark.parametrize("kind", ["image_url", "audio_url", "video_url"])
@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("http://169.254.169.254/latest/meta-data", "of remote hosts, none may be asked"),
        ("HTTPS://example.com/a.png", "of remote hosts, none may be asked"),
        ("file:///etc/passwd", "no files are read here"),
        ("/etc/passwd", "neither a data: URL nor"),
        ("ftp://example.com/a.png", "neither a data: URL nor"),
        ("http://[", "it is no address"),
        ("", "neither a data: URL nor"),
    ],
)
def test_nothing_is_read_that_the_plan_does_not_name(kind: str, address: str, why: str) -> None:
    told = refusal(asked(kind, address))
    assert why in told
    assert told.endswith("send the data itself, as a data: URL")


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [{"content": [{"image_url": "http://example.com/a"}]}]},  # vLLM's shorter form
        {"input": [{"content": [{"type": "input_image", "image_url": "http://example.com/a"}]}]},  # /v1/responses
        {"messages": [{"content": [{"type": "image", "source": {"type": "url", "url": "http://example.com/a"}}]}]},
    ],
)
def test_addresses_are_found_in_every_endpoints_shape(body: Any) -> None:
    assert "none may be asked" in refusal(body)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_addresses_are_found_in_every_encoding_that_vllm_reads(encoding: str) -> None:
    body = json.dumps(asked("image_url", "http://example.com/a"))
    assert "none may be asked" in refusal(body.encode(encoding))
    assert "none may be asked" in refusal(body.replace("image_url", "\\u0069mage_\\u0075rl").encode())


def test_hosts_and_files_that_the_plan_names_are_read() -> None:
    allowed = Allowed(("example.com",), files=True)
    for address in ("https://example.com/a.png", "http://example.com:8080/a.png", "file:///srv/media/a.png", PICTURE):
        body = asked("image_url", address)
        assert json.loads(answer(body, allowed)[0]["body"]) == body
    told = refusal(asked("image_url", "https://example.com.evil.test/a.png"), allowed)
    assert "of remote hosts, example.com may be asked here (the stage's allowed_media_domains)" in told


@pytest.mark.parametrize(
    "body",
    [
        asked("image_url", PICTURE),
        {"messages": [{"content": [{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}]}]},
    ],
)
def test_a_server_that_takes_text_alone_says_why(body: Any) -> None:
    told = refusal(body, Allowed(("example.com",), text_alone="torchvision is not installed"))
    assert told == "messages: this server takes text alone: torchvision is not installed"
    assert answer(body)[0].get("status") is None, "others take them"


@pytest.mark.parametrize(
    "start", ["data:image/png;base64,", "DATA:image/png;base64,", "http://example.com/", " data:,"]
)
def test_of_what_was_sent_nothing_is_held_afterwards(start: str) -> None:
    allowed = Allowed(("example.com",))
    tracemalloc.start()
    try:
        for number in range(10):
            allowed.objection(f"{start}{number}" + "A" * 2**20)
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 2**19


def test_an_address_that_no_server_would_take_is_not_read() -> None:
    allowed = Allowed(("example.com",))
    assert "it has more than 8192 characters" in refusal(
        asked("image_url", "http://example.com/" + "a" * 8192), allowed
    )


def test_long_addresses_are_not_repeated() -> None:
    assert len(refusal(asked("image_url", "http://example.com/" + "a" * 10_000))) < 400


@pytest.mark.parametrize(
    "body",
    [
        asked("image_url", PICTURE),
        {"messages": [{"role": "user", "content": "see http://example.com and file:///etc/passwd, image_url"}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "source"}]}], "source": "http://a.test"},
        b'{"image_url": ',
        b"[" * 100_000 + b'"image_url"',
        b"",
    ],
)
def test_everything_else_reaches_the_server_as_it_came(body: Any) -> None:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    assert [message["body"] for message in answer(body)] == [raw]


def test_a_body_beyond_what_fits_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asgi, "BODY_MOST", 1000)
    start, body = answer(b"x" * 1001)
    assert start["status"] == 413
    assert "send smaller pictures" in json.loads(body["body"])["error"]["message"]
    assert [message["body"] for message in answer(b"x" * 1000)] == [b"x" * 1000]


def test_vllm_is_given_a_list_whatever_the_plan_says() -> None:
    assert Allowed.of({}).engine_args() == {"allowed_media_domains": [NOBODY]}
    assert Allowed.of({"allowed_media_domains": []}).engine_args() == {"allowed_media_domains": [NOBODY]}
    named = Allowed.of({"allowed_media_domains": ["example.com"], "allowed_local_media_path": "/srv"})
    assert named == Allowed(("example.com",), files=True)
    assert named.engine_args() == {}


def test_a_host_on_the_list_does_not_lead_to_another_unless_the_user_says_so() -> None:
    assert Allowed().environment({})["VLLM_MEDIA_URL_ALLOW_REDIRECTS"] == "0"
    assert "VLLM_MEDIA_URL_ALLOW_REDIRECTS" not in Allowed().environment({"VLLM_MEDIA_URL_ALLOW_REDIRECTS": "1"})
    told = Allowed(("a.test",), files=True).environment({})[media_sources.VARIABLE]
    assert Allowed(**json.loads(told)) == Allowed(["a.test"], files=True)  # type: ignore[arg-type]
