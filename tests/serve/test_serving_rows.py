"""``omnicfg serve`` of a plan whose later stage reads hidden states: they are offered, guarded, counted, and outlive a
crash of the engine.

The plan is Qwen2.5-Omni's, the model a tiny text Thinker; nobody starts the later stages, so this test is the consumer.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnicfg
from benchmarks.engine.soak import PayloadSink
from omnicfg.engine.spec import request_flag
from omnicfg.models import materialize
from omnicfg.resources.estimate import StageEstimate, estimates
from omnicfg.serve.machine import installed_vllm
from tests.patience import PATIENCE_S, until
from tests.serve.served import Served, body
from tests.waves import asked_at_once

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(installed_vllm() is None, reason="needs the extra cpu or cuda"),
]

SETTINGS = {
    "dtype": "float32",
    "stages.0.max_model_len": 1024,
    "stages.0.max_num_batched_tokens": 1024,
    "stages.0.max_num_seqs": 4,
    "stages.0.block_size": 32,
    "stages.0.kv_cache_memory_bytes": 2**27,
    "stages.0.enable_prefix_caching": True,
}
MODEL = "builtin:tiny-thinker"
KEY = "sesame"
TOKEN_BYTES = 256 * 4
RUNNING = ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    settings = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={json.dumps(value)}")]
    words = ["qwen2_5_omni", "--model", MODEL, *settings, "--api-key", KEY, "--restart", "1"]
    with Served(tmp_path_factory.mktemp("served") / "log", *words) as served:
        yield served


@pytest.fixture(scope="module")
def socket(server: Served) -> Path:
    found = re.search(r"hidden states \(final\) of requests that ask for them are at (\S+)", server.log.read_text())
    assert found
    return Path(found[1])


@pytest.fixture(scope="module")
def sink(socket: Path) -> PayloadSink:
    return PayloadSink(socket)


def complete(server: Served, key: str | None = None, **fields: Any) -> tuple[int, dict[str, Any]]:
    """Status and answer to a prompt of 100 token ids that may ask for its rows under ``key``."""
    asked = {"model": "tiny-thinker", "prompt": list(range(300, 400)), "max_tokens": 6, "temperature": 0}
    flag = {} if key is None else {"kv_transfer_params": request_flag(key)}
    status, text = server.ask("/v1/completions", body(**{**asked, "ignore_eos": True, **flag, **fields}), KEY)
    return status, json.loads(text) if text.startswith(b"{") else {}


def settled_metrics(server: Served) -> dict[str, float]:
    """What is counted once all steps of earlier requests are: what they did is told before this one's answer is."""
    assert complete(server, prompt=[1])[0] == 200
    return server.metrics()


def wait_until_idle(server: Served) -> None:
    until(lambda: not any(server.metrics()[name] for name in RUNNING))


def test_only_its_user_reaches_the_socket(socket: Path) -> None:
    assert [path.stat().st_mode & 0o777 for path in (socket.parent.parent, socket.parent, socket)] == [0o700] * 3


def test_the_cache_holds_as_many_tokens_as_estimated(server: Served) -> None:
    plan = omnicfg.resolve("qwen2_5_omni", overrides=SETTINGS)
    first = next(iter(estimates(plan, materialize(MODEL))))
    assert isinstance(first, StageEstimate)
    logged = re.search(r"KV cache size: ([\d,]+) tokens", server.log.read_text())
    assert logged
    assert int(logged[1].replace(",", "")) == pytest.approx(first.tokens, rel=0.03)


def test_a_chat_comes_with_hidden_states(server: Served, sink: PayloadSink) -> None:
    messages = [{"role": "user", "content": "Hello there, how is the weather?"}]
    asked = body(model="tiny-thinker", messages=messages, max_tokens=5, kv_transfer_params=request_flag("chat"))
    status, text = server.ask("/v1/chat/completions", asked, KEY)
    assert status == 200
    payload = sink.payload("chat")
    assert payload.complete
    assert payload.tokens == json.loads(text)["usage"]["total_tokens"] - 1
    assert len(payload.data) == payload.tokens * TOKEN_BYTES


def test_metrics_count_hits_and_rows(server: Served, sink: PayloadSink) -> None:
    names = ("vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total", "omnicfg:payload_bytes_total")
    assert complete(server)[0] == 200
    before = settled_metrics(server)
    assert complete(server, "counted")[0] == 200
    assert sink.payload("counted").tokens == 105
    after = settled_metrics(server)
    assert [after[name] - before[name] for name in names] == [100 + 1, 96, 105 * TOKEN_BYTES]
    share = TOKEN_BYTES / (TOKEN_BYTES + 4 * 2 * 2 * 64 * 4)
    assert after["omnicfg:payload_cache_bytes"] == pytest.approx(2**27 * share, rel=0.01)


def test_its_health_is_shown_to_everybody_and_nothing_else_is(server: Served, sink: PayloadSink) -> None:
    assert server.ask("/health")[0] == 200
    before = settled_metrics(server)["omnicfg:payload_rows_total"]
    asked = body(model="tiny-thinker", prompt="hello", kv_transfer_params=request_flag("thief"))
    assert [server.ask("/v1/completions", asked, key)[0] for key in (None, "guess")] == [401, 401]
    assert settled_metrics(server)["omnicfg:payload_rows_total"] == before
    assert sink.finished["incomplete"] == 0


def test_tenants_share_no_rows(server: Served, sink: PayloadSink) -> None:
    def hits(tenant: str) -> float:
        before = server.metrics()["vllm:prefix_cache_hits_total"]
        status, _ = complete(server, f"of {tenant}", prompt=list(range(500, 600)), cache_salt=tenant)
        assert status == 200
        assert sink.payload(f"of {tenant}").complete
        return server.metrics()["vllm:prefix_cache_hits_total"] - before

    assert [hits(tenant) for tenant in ("one", "two", "one")] == [0, 0, 96]


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"prompt": [300] * 2000}, 400),
        ({"max_tokens": -1}, 400),
        ({"kv_transfer_params": "payload"}, 400),
        ({"model": "another"}, 404),
    ],
)
def test_a_request_that_cannot_be_served_is_the_clients_fault(
    server: Served, asked: dict[str, Any], status: int
) -> None:
    assert complete(server, **{"key": "refused", **asked})[0] == status
    wait_until_idle(server)


def test_a_body_that_is_cut_off_is_the_clients_fault(server: Served) -> None:
    assert server.ask("/v1/completions", b'{"model": "tiny-thinker", "prom', KEY)[0] == 400


def test_a_client_that_leaves_frees_its_slot_and_its_rows(server: Served, sink: PayloadSink) -> None:
    host, port = server.url.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    asked = {"model": "tiny-thinker", "prompt": list(range(300, 400)), "max_tokens": 800, "ignore_eos": True}
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"}
    text = body(**asked, stream=True, kv_transfer_params=request_flag("left"))
    connection.request("POST", "/v1/completions", text, headers)
    connection.getresponse().readline()
    connection.close()
    payload = sink.payload("left")
    assert (payload.reason, payload.complete) == ("abort", True)
    wait_until_idle(server)


def test_a_crashed_engine_fails_its_requests_and_comes_back(server: Served, socket: Path, sink: PayloadSink) -> None:
    engine = server.engine_process()
    with asked_at_once(lambda: complete(server, "lost", max_tokens=900)[0], 8) as outcomes:
        until(server.running)
        os.kill(engine, signal.SIGKILL)
    assert len(outcomes) == 8
    lost = [status for status in outcomes if status != 200]
    assert lost
    assert all(status >= 500 for status in lost)
    assert "/v1" in server.next_announcement()
    assert "starting it again in 1 s" in server.log.read_text()
    again = PayloadSink(socket)
    assert complete(server, "back")[0] == 200
    assert again.payload("back").complete
    again.receiver.close()


def test_ctrl_c_lets_requests_finish_with_all_their_rows(server: Served, socket: Path) -> None:
    sink = PayloadSink(socket)
    answers: list[tuple[int, dict[str, Any]]] = []
    asking = threading.Thread(target=lambda: answers.append(complete(server, "last", max_tokens=300)))
    asking.start()
    until(lambda: server.running() or answers)
    session = server.session
    assert server.stop() == 0
    asking.join(timeout=PATIENCE_S)
    [(status, answer)] = answers
    assert (status, answer["usage"]["completion_tokens"]) == (200, 300)
    payload = sink.payload("last")
    assert (payload.complete, payload.tokens) == (True, 399)
    assert server.leftovers(session) == []
    assert not socket.parent.exists()
