"""Does anything leak? Asks a server for everything that clients do, and looks whether it comes back to where it began.

    python -m benchmarks.engine.soak OUT [--seconds 600] [--plain]      (on the CPU, with the tiny model)

Clients stream, hang up in the middle, ask for several completions, for too much, with bodies that are none; with and
without rows. Memory is compared between the end of the first fifth, when caches and pools have filled up, and the end;
running requests, KV blocks in use and open files must be back at once. ``--plain`` asks the same of vLLM without rows:
what that grows by is not ours.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.engine.servers import Server
from benchmarks.engine.support import engine_environment
from omnicfg.engine.spec import PayloadRows, request_flag, rows_engine_args
from omnicfg.engine.transport import Payload, PayloadAssembler, RowReceiver
from omnicfg.models import materialize, tiny_thinker

MODEL = "thinker"
CACHE_BYTES = 2**27
CLIENTS = 4
GAUGES = ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc")


def rows_server(folder: Path, port: int, *more: str, plain: bool = False) -> tuple[Server, Path]:
    """The tiny model with rows on its OpenAI server, and the socket at which the rows are; not yet ready.

    A ``plain`` one is vLLM's own, without rows, with as much room for tokens.
    """
    socket = folder / "rows.sock"
    rows = rows_engine_args(PayloadRows((2,), final=True), tiny_thinker.config(), {}, socket=str(socket))
    flags = [word for name, value in rows.items() for word in ("--" + name.replace("_", "-"), json.dumps(value))]
    arguments = [
        "--model",
        str(materialize("builtin:tiny-thinker")),
        "--served-model-name",
        MODEL,
        "--dtype",
        "float32",
    ]
    arguments += ["--enforce-eager", "--max-model-len", "1536", "--max-num-seqs", "8", "--block-size", "32"]
    # A page of the cache takes memory when its block is used for the first time: few blocks, so that this is over soon.
    arguments += ["--kv-cache-memory-bytes", str(CACHE_BYTES * 2 // 3 if plain else CACHE_BYTES)]
    flags = [] if plain else flags
    return Server("soak", [*arguments, *flags, *more], port, folder / "server.log", engine_environment(folder)), socket


class PayloadSink:
    """Receives rows in a thread; counts them, and keeps the payloads whose key is waited for."""

    def __init__(self, socket: Path) -> None:
        self.receiver = RowReceiver(socket)
        self.finished: Counter[str] = Counter()
        self._kept: dict[str, Payload] = {}
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def payload(self, key: str, timeout: float = 60.0) -> Payload:
        """The payload of the request with this key, once it has come."""
        with self._news:
            if not self._news.wait_for(lambda: key in self._kept, timeout):
                raise TimeoutError(f"no payload came for {key}")
            return self._kept.pop(key)

    def _follow(self) -> None:
        assembler = PayloadAssembler(self.receiver.layout)
        for message in self.receiver:
            payload = assembler.add(message)
            if payload is not None:
                with self._news:
                    self.finished[payload.reason if payload.complete else "incomplete"] += 1
                    if payload.key is not None:
                        self._kept[payload.key] = payload
                    self._news.notify_all()


@dataclass
class Soak:
    """What was asked, what was answered, and the state of the server over time."""

    seconds: float
    answers: dict[str, int] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    samples: list[dict[str, float]] = field(default_factory=list)
    idle_before: dict[str, float] = field(default_factory=dict)
    idle_after: dict[str, float] = field(default_factory=dict)
    resident_before: dict[str, float] = field(default_factory=dict)
    resident_after: dict[str, float] = field(default_factory=dict)

    @property
    def growth(self) -> float:
        """GiB of VmRSS between the end of the first fifth and the end, all processes."""
        settled = self.samples[len(self.samples) // 5]
        return self.samples[-1]["resident_gib"] - settled["resident_gib"]


def soak(server: Server, sink: PayloadSink | None, seconds: float, seed: int = 1) -> Soak:
    """Ask ``server`` for ``seconds`` seconds; it is idle before and after. ``sink`` takes its rows, if it has any."""
    result = Soak(seconds)
    result.idle_before = idle_state(server)
    result.resident_before = server.resident()
    answers: Counter[str] = Counter()
    rows_before = Counter(sink.finished if sink else ())
    end = time.monotonic() + seconds
    clients = [
        threading.Thread(target=_client, args=(server, random.Random(seed + index), end, answers))
        for index in range(CLIENTS)
    ]
    for client in clients:
        client.start()
    while any(client.is_alive() for client in clients):
        time.sleep(min(5.0, seconds / 20))
        gauges = server.metrics()
        sample = {name: gauges.get(name, 0.0) for name in GAUGES}
        result.samples.append({"second": round(time.monotonic() - end + seconds, 1), **sample, **_memory(server)})
    result.idle_after = idle_state(server)
    result.resident_after = server.resident()
    result.answers = dict(sorted(answers.items()))
    result.rows = dict(sink.finished - rows_before) if sink else {}
    return result


def idle_state(server: Server, timeout: float = 60.0) -> dict[str, float]:
    """The server's state once nothing runs: requests, blocks in use, open files, memory."""
    deadline = time.monotonic() + timeout
    while True:
        gauges = server.metrics()
        state = {name: gauges.get(name, 0.0) for name in GAUGES}
        if not any(state.values()) or time.monotonic() > deadline:
            return {**state, **_memory(server)}
        time.sleep(0.2)


def post(server: Server, body: bytes, path: str = "/v1/completions") -> tuple[int, dict[str, Any]]:
    """Status and JSON of a POST."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    try:
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if text.startswith(b"{") else {}
    finally:
        connection.close()


def stream(server: Server, body: dict[str, Any], stop_after: int | None = None) -> list[dict[str, Any]]:
    """The chunks of a streamed completion; hangs up after ``stop_after`` of them."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    chunks: list[dict[str, Any]] = []
    try:
        text = json.dumps({**body, "stream": True})
        connection.request("POST", "/v1/completions", text, {"Content-Type": "application/json"})
        for line in connection.getresponse():
            if line.startswith(b"data: {"):
                chunks.append(json.loads(line[6:]))
                if stop_after is not None and len(chunks) >= stop_after:
                    break
    finally:
        connection.close()
    return chunks


def prompt(source: random.Random, length: int) -> list[int]:
    """Random token ids of ordinary words."""
    return [source.randrange(256, 1000) for _ in range(length)]


def _client(server: Server, source: random.Random, end: float, answers: Counter[str]) -> None:
    common = prompt(random.Random(0), 400)
    while time.monotonic() < end:
        name, act = source.choice(list(_ACTS.items()))
        body: dict[str, Any] = {
            "model": MODEL,
            "prompt": common[: source.randrange(400)] + prompt(source, source.randrange(1, 300)),
            "max_tokens": source.randrange(1, 40),
            "ignore_eos": True,
        }
        if source.random() < 0.7:
            body["kv_transfer_params"] = request_flag()
        try:
            outcome = act(server, source, body)
        except (OSError, http.client.HTTPException) as error:
            outcome = type(error).__name__
        answers[f"{name}: {outcome}"] += 1


def _complete(server: Server, source: random.Random, body: dict[str, Any]) -> str:
    body |= {"n": source.choice([1, 1, 3]), "cache_salt": source.choice(["one", "two"])}
    return str(post(server, json.dumps(body).encode())[0])


def _hang_up(server: Server, source: random.Random, body: dict[str, Any]) -> str:
    stream(server, {**body, "max_tokens": 200}, stop_after=source.randrange(1, 20))
    return "hung up"


def _stream_all(server: Server, source: random.Random, body: dict[str, Any]) -> str:
    whole = len(stream(server, body)) >= 1
    return "whole" if whole else f"empty ({source.random()})"


def _too_long(server: Server, source: random.Random, body: dict[str, Any]) -> str:
    return str(post(server, json.dumps({**body, "prompt": prompt(source, 1600)}).encode())[0])


def _no_body(server: Server, source: random.Random, body: dict[str, Any]) -> str:
    text = json.dumps(body).encode()
    return str(post(server, text[: source.randrange(len(text))])[0])


_ACTS: dict[str, Callable[[Server, random.Random, dict[str, Any]], str]] = {
    "complete": _complete,
    "stream": _stream_all,
    "hang up": _hang_up,
    "too long": _too_long,
    "broken body": _no_body,
}


def _memory(server: Server) -> dict[str, float]:
    return {"resident_gib": round(sum(server.resident().values()), 3), "open_files": server.open_files()}


def main() -> int:
    """Soak a server of its own; 1 where it did not come back."""
    parser = argparse.ArgumentParser(description="Look for leaks.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--plain", action="store_true", help="vLLM without rows, to compare with")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    server, socket = rows_server(options.out, 8103, plain=options.plain)
    with server:
        server.wait_ready(300)
        result = soak(server, None if options.plain else PayloadSink(socket), options.seconds)
    report = {"growth_gib": round(result.growth, 3), **asdict(result)}
    (options.out / "soak.json").write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps({name: report[name] for name in report if name != "samples"}, indent=1))
    return int(any(result.idle_after[name] for name in GAUGES) or result.growth > 0.1)


if __name__ == "__main__":
    sys.exit(main())
