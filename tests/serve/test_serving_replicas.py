"""Two data-parallel replicas of a dense Thinker on the CPU: each offers its own requests' rows at its own socket."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.engine.soak import PayloadSink
from omnicfg.engine.spec import request_flag
from omnicfg.serve.machine import installed_vllm
from tests.patience import until
from tests.serve.served import END_S, Served, body

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(installed_vllm() is None, reason="needs the extra cpu or cuda"),
]

REPLICAS = 2
REQUESTS = 8
SETTINGS: dict[str, Any] = {
    "dtype": "float32",
    "stages.0.data_parallel_size": REPLICAS,
    "stages.0.gpu_memory_utilization": 0.1,
    "stages.0.max_model_len": 512,
    "stages.0.max_num_batched_tokens": 512,
    "stages.0.max_num_seqs": 4,
    "stages.0.block_size": 32,
    "stages.0.kv_cache_memory_bytes": 2**26,
}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("replicas") / "dense"
    program = [sys.executable, "-m", "tests.engine.omni_thinkers", str(folder), "qwen3", "--make-only"]
    subprocess.run(program, check=True, capture_output=True)
    return folder


@pytest.fixture(autouse=True)
def shared_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both replicas on the same cores, as many as there are."""
    monkeypatch.setenv("VLLM_CPU_OMP_THREADS_BIND", "nobind")


def words(checkpoint: Path, **settings: Any) -> list[str]:
    asked = {**SETTINGS, **{f"stages.0.{name}": value for name, value in settings.items()}}
    sets = [word for name, value in asked.items() for word in ("--set", f"{name}={json.dumps(value)}")]
    return ["qwen2_5_omni", "--model", str(checkpoint), *sets]


def sockets_in(log: Path) -> list[Path]:
    found = re.search(r"requests that ask for them are at (.*)", log.read_text())
    assert found
    return [Path(word) for word in found[1].split(", ")]


def assert_spread(server: Served, sockets: list[Path]) -> None:
    """Eight requests at a time, long enough to meet: all answered, every payload whole, some at each socket."""
    sinks = [PayloadSink(path) for path in sockets]
    model = json.loads(server.ask("/v1/models")[1])["data"][0]["id"]
    statuses: list[int] = []

    def ask(index: int) -> None:
        prompt = list(range(300 + index, 400 + index))
        flag = request_flag(str(index))
        asked = body(model=model, prompt=prompt, max_tokens=100, ignore_eos=True, kv_transfer_params=flag)
        statuses.append(server.ask("/v1/completions", asked)[0])

    clients = [threading.Thread(target=ask, args=(index,)) for index in range(REQUESTS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    assert statuses == [200] * REQUESTS
    until(lambda: sum(sink.finished.total() for sink in sinks) >= REQUESTS)
    assert [set(sink.finished) for sink in sinks] == [{"length"}] * REPLICAS


def test_two_replicas_on_one_node(checkpoint: Path, tmp_path: Path) -> None:
    with Served(tmp_path / "log", *words(checkpoint, devices="0,1")) as server:
        sockets = sockets_in(server.log)
        assert [path.name for path in sockets] == ["rows.sock.0", "rows.sock.1"]
        assert_spread(server, sockets)


@pytest.fixture
def headless(checkpoint: Path, tmp_path: Path) -> Iterator[tuple[dict[str, Any], Path]]:
    """The second of two nodes, both on this machine: what both are told, and the second one's log."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    common = {
        "devices": "0",
        "data_parallel_size_local": 1,
        "data_parallel_address": "127.0.0.1",
        "data_parallel_rpc_port": port,
    }
    log = tmp_path / "headless.log"
    arguments = words(checkpoint, **common, data_parallel_start_rank=1)
    with log.open("w") as output:
        command = [sys.executable, "-m", "omnicfg.cli", "serve", *arguments, "--headless", "--port", "8099"]
        node = subprocess.Popen(command, stdout=output, stderr=output, env=dict(os.environ))
    yield common, log
    if node.poll() is None:
        node.send_signal(signal.SIGTERM)
    node.wait(timeout=END_S)


def test_two_nodes(checkpoint: Path, tmp_path: Path, headless: tuple[dict[str, Any], Path]) -> None:
    common, log = headless
    with Served(tmp_path / "log", *words(checkpoint, **common)) as server:
        sockets = [*sockets_in(server.log), *sockets_in(log)]
        assert [path.name for path in sockets] == ["rows.sock.0", "rows.sock.1"]
        assert sockets[0].parent != sockets[1].parent
        assert_spread(server, sockets)
