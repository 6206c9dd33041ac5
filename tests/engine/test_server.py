"""Rows through vLLM's own OpenAI server: what clients get, what a consumer gets, what happens when something dies."""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.engine.servers import Server
from benchmarks.engine.soak import (
    CACHE_BYTES,
    GAUGES,
    MODEL,
    PayloadSink,
    idle_state,
    post,
    prompt,
    rows_server,
    soak,
    stream,
)
from omnicfg.engine.spec import request_flag
from omnicfg.serve.preflight import free_port
from tests.patience import PATIENCE_S, until
from tests.waves import asked_at_once

pytest.importorskip("vllm", reason="starts the engine")
pytestmark = pytest.mark.slow

ROWS, BYTES = "omnicfg:payload_rows_total", "omnicfg:payload_bytes_total"
TOKEN_BYTES = 2 * 256 * 4


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Path]]:
    folder = tmp_path_factory.mktemp("server")
    server, socket = rows_server(folder, free_port("127.0.0.1"))
    with server:
        server.wait_ready(600)
        yield server, socket


@pytest.fixture(scope="module")
def server(started: tuple[Server, Path]) -> Server:
    return started[0]


@pytest.fixture(scope="module")
def sink(started: tuple[Server, Path]) -> PayloadSink:
    return PayloadSink(started[1])


def ask(key: str | None = None, **more: Any) -> dict[str, Any]:
    body = {"model": MODEL, "prompt": prompt(random.Random(1), 200), "max_tokens": 12, "temperature": 0}
    flag = {} if key is None else {"kv_transfer_params": request_flag(key)}
    return {**body, "ignore_eos": True, **flag, **more}


def complete(server: Server, **body: Any) -> dict[str, Any]:
    status, answer = post(server, json.dumps(body).encode())
    assert status == 200, answer
    return answer


def settled_metrics(server: Server) -> dict[str, float]:
    """What is counted once all steps of earlier requests are: what they did is told before this one's answer is."""
    complete(server, **ask(prompt=[1]))
    return server.metrics()


def test_an_answer_comes_with_its_rows(server: Server, sink: PayloadSink) -> None:
    answer = complete(server, **ask("whole"))
    payload = sink.payload("whole")
    assert payload.complete
    assert payload.tokens == 200 + 12 - 1
    assert len(payload.data) == payload.tokens * TOKEN_BYTES
    assert answer["kv_transfer_params"]["payload"] == {"request": payload.request, "tokens": payload.tokens}


def test_a_chat_comes_with_its_rows(server: Server, sink: PayloadSink) -> None:
    chat = {"model": MODEL, "messages": [{"role": "user", "content": "Hello there"}], "max_tokens": 5}
    body = json.dumps({**chat, "kv_transfer_params": request_flag("chat")}).encode()
    status, answer = post(server, body, "/v1/chat/completions")
    assert status == 200
    payload = sink.payload("chat")
    assert payload.complete
    assert payload.tokens == answer["usage"]["total_tokens"] - 1


def test_a_streamed_answer_has_the_same_rows(server: Server, sink: PayloadSink) -> None:
    complete(server, **ask("at once"))
    chunks = stream(server, ask("streamed"))
    assert len(chunks) >= 12
    at_once, streamed = sink.payload("at once"), sink.payload("streamed")
    assert streamed.complete
    assert streamed.tokens == at_once.tokens
    prefix = 192 * TOKEN_BYTES  # the six blocks that both found in the cache
    assert streamed.data[:prefix] == at_once.data[:prefix]


def test_rows_of_text_only_requests_are_never_gathered(server: Server, sink: PayloadSink) -> None:
    before = settled_metrics(server)[ROWS]
    complete(server, **ask("counted"))
    sink.payload("counted")
    complete(server, **ask())
    complete(server, **ask(), kv_transfer_params={"payload": False})
    assert settled_metrics(server)[ROWS] - before == (200 + 12 - 1) * 2


def test_metrics_show_hits_and_the_rows_bytes(server: Server, sink: PayloadSink) -> None:
    names = ("vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total", BYTES)
    before = settled_metrics(server)
    complete(server, **ask("metrics"))
    sink.payload("metrics")
    after = settled_metrics(server)
    queries, hits, size = (after[name] - before[name] for name in names)
    assert (queries, hits) == (200 + 1, 192)
    assert size == 211 * TOKEN_BYTES
    assert after["omnicfg:payload_cache_bytes"] == pytest.approx(CACHE_BYTES / 3, rel=0.01)  # 2 KiB of 6 KiB a token


def test_tenants_with_different_salts_share_nothing(server: Server) -> None:
    def hits(salt: str) -> float:
        before = server.metrics()["vllm:prefix_cache_hits_total"]
        complete(server, **ask(prompt=prompt(random.Random(99), 200), cache_salt=salt))
        return server.metrics()["vllm:prefix_cache_hits_total"] - before

    assert (hits("one"), hits("two"), hits("one"), hits("two")) == (0, 0, 192, 192)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (json.dumps(ask(prompt=prompt(random.Random(2), 2000))), 400),
        (json.dumps(ask(kv_transfer_params="payload")), 400),
        (json.dumps(ask(max_tokens=-1)), 400),
        (json.dumps(ask(model="another")), 404),
        ('{"model": "thinker", "prompt', 400),
        ("", 400),
    ],
)
def test_a_request_that_cannot_be_served_gets_a_4xx(server: Server, body: str, status: int) -> None:
    assert post(server, body.encode())[0] == status


def test_whatever_the_flag_holds_the_server_lives(server: Server) -> None:
    for flag in ({"payload": {"x": [1]}}, {"payload": "k" * 5000}, {"other": 1}, {}):
        complete(server, **ask(kv_transfer_params=flag))


def test_a_client_that_hangs_up_frees_its_slot(server: Server, sink: PayloadSink) -> None:
    stream(server, ask("hung up", max_tokens=1000), stop_after=3)
    payload = sink.payload("hung up")
    assert payload.reason == "abort"
    assert payload.complete
    assert 200 <= payload.tokens < 1200
    state = idle_state(server)
    assert [state[name] for name in GAUGES] == [0, 0, 0]


def test_a_soaked_server_comes_back_to_where_it_began(server: Server, sink: PayloadSink) -> None:
    result = soak(server, sink, seconds=20)
    assert [result.idle_after[name] for name in GAUGES] == [0, 0, 0]
    until(lambda: server.open_files() <= result.idle_before["open_files"] + 4)
    assert result.growth < 0.2
    assert "incomplete" not in result.rows
    statuses = {outcome.split(": ")[1] for outcome in result.answers}
    assert statuses <= {"200", "400", "hung up", "whole"}


def test_the_server_outlives_its_consumer_and_takes_another(started: tuple[Server, Path], sink: PayloadSink) -> None:
    server, socket = started
    sink.receiver.close()
    complete(server, **ask("nobody"))
    assert settled_metrics(server)["omnicfg:payload_dropped_rows_total"] > 0
    another = PayloadSink(socket)
    complete(server, **ask("somebody"))
    assert another.payload("somebody").complete
    another.receiver.close()


def test_a_worker_that_dies_fails_requests_and_ends_the_server(server: Server) -> None:
    worker = next(int(name.split()[-1]) for name in server.resident() if "Worker" in name)
    with asked_at_once(lambda: post(server, json.dumps(ask(max_tokens=1200)).encode())[0], 16) as outcomes:
        until(lambda: server.metrics()["vllm:num_requests_running"])
        os.kill(worker, signal.SIGKILL)
    assert len(outcomes) == 16
    lost = [status for status in outcomes if status != 200]
    assert lost
    assert all(status >= 500 for status in lost)
    server.process.wait(timeout=PATIENCE_S)  # with exit code 0, by vLLM 0.32.0: whoever started it has to know better
