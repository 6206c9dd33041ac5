"""``omnicfg serve tiny-omni`` for real: vLLM on the CPU, asked through the OpenAI client."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from omnicfg.demo import SHARED_PREFIX, cache_counters
from omnicfg.serve.machine import installed_vllm
from tests.serve.served import Served, body

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(installed_vllm() is None, reason="needs the extra cpu or cuda"),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("served") / "log", "tiny-omni", "--api-key", "sesame") as served:
        yield served


@pytest.fixture
def client(server: Served) -> Iterator[Any]:
    import openai

    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="sesame", max_retries=0, timeout=120) as client:
        yield client


def ask(client: Any, question: str, **options: Any) -> Any:
    messages = [{"role": "system", "content": SHARED_PREFIX}, {"role": "user", "content": question}]
    return client.chat.completions.create(model="tiny-omni", messages=messages, **options)


def test_the_second_request_with_a_prefix_hits_the_cache(server: Served, client: Any) -> None:
    hits_before, _ = cache_counters(server.url)
    first = ask(client, "What time does the library open?", max_tokens=8)
    second = ask(client, "Where do I find the maps?", max_tokens=8)
    prefix = second.usage.prompt_tokens_details.cached_tokens
    hits, queries = cache_counters(server.url)
    assert first.choices[0].message.content
    assert second.usage.prompt_tokens > prefix >= 0.8 * second.usage.prompt_tokens, second.usage
    assert hits - hits_before >= prefix
    assert queries > hits


def test_a_hit_changes_nothing_about_the_answer(client: Any) -> None:
    question = "Which day is it closed?"
    cold, warm = (ask(client, question, max_tokens=32) for _ in range(2))
    assert warm.usage.prompt_tokens_details.cached_tokens > cold.usage.prompt_tokens_details.cached_tokens - 1
    assert warm.choices[0].message.content == cold.choices[0].message.content


@pytest.mark.parametrize(("options", "tokens"), [({}, 64), ({"max_tokens": 5}, 5), ({"max_completion_tokens": 80}, 80)])
def test_the_profiles_defaults_hold_until_a_request_says_otherwise(
    client: Any, options: dict[str, int], tokens: int
) -> None:
    answer = ask(client, "Tell me everything.", **options, extra_body={"ignore_eos": True})
    assert (answer.usage.completion_tokens, answer.choices[0].finish_reason) == (tokens, "length")


@pytest.mark.parametrize("asked", [{"messages": [{"role": "user", "content": "Tell me."}]}, {"prompt": "Once"}])
def test_they_hold_at_sagemakers_path_too(server: Served, asked: dict[str, Any]) -> None:
    status, answer = server.ask("/invocations", body(**asked, ignore_eos=True), "sesame")
    assert (status, json.loads(answer)["usage"]["completion_tokens"]) == (200, 64)


def test_a_session_of_sagemakers_is_vllms_to_judge(server: Served) -> None:
    status, answer = server.ask("/invocations", body(requestType="NEW_SESSION"), "sesame")
    assert (status, "stateful sessions not enabled" in answer.decode()) == (400, True)


def test_an_answer_can_be_streamed(client: Any) -> None:
    pieces = list(ask(client, "Who reads?", max_tokens=6, stream=True))
    assert "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)
    assert pieces[-1].choices[0].finish_reason == "length"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"[]", 400),
        (b'{"model": "tiny-omni"}', 400),
        (b'{"model": "tiny-omni", "messages": "hello"}', 400),
        (b'{"model": "another", "messages": [{"role": "user", "content": "hello"}]}', 404),
        (b'{"model": "tiny-omni", "messages": [{"role": "user", "content": "hello"}], "temperature": -1}', 400),
        (json.dumps({"model": "tiny-omni", "messages": [{"role": "user", "content": "a " * 5000}]}).encode(), 400),
    ],
)
def test_a_bad_request_is_the_clients_fault(server: Served, body: bytes, status: int) -> None:
    assert answer_to(server, body) == status
    assert server.process.poll() is None


def test_a_request_without_the_key_is_turned_away(server: Served) -> None:
    assert answer_to(server, b"{}", key="guess") == 401


def test_nobody_can_read_the_key_from_the_servers_command_line(server: Served) -> None:
    lines = server.command_lines()
    assert lines
    assert not any(b"sesame" in line for line in lines.values())


def answer_to(server: Served, body: bytes, key: str = "sesame") -> int:
    """The status of the answer to a raw body."""
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    asked = urllib.request.Request(f"{server.url}/v1/chat/completions", body, headers)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(asked, timeout=60) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_a_second_server_on_its_port_is_refused(server: Served) -> None:
    port = server.url.rpartition(":")[2]
    command = [sys.executable, "-m", "omnicfg.cli", "serve", "tiny-omni", "--port", port]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert refused.returncode == 2
    owner = server.process.pid
    assert f"127.0.0.1:{port} is taken: another `omnicfg serve` (process {owner}) serves there" in refused.stderr
    assert refused.stdout == ""


def test_a_killed_engine_ends_the_server_with_an_error(server: Served) -> None:
    session = server.session
    os.kill(server.engine_process(), signal.SIGKILL)
    assert server.end() == 2
    assert server.leftovers(session) == []
    assert "error: the server" in server.log.read_text()
