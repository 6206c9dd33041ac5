"""NOT a server of models: it answers as OpenAI's API does, so that drivers and campaigns can be tried in no time.

``fake_openai.py PORT [BEHAVIOUR...]``. It answers with as many tokens as are asked for, at once; prompt tokens count as
queries and those of a prompt's known beginning as hits. Behaviours: ``off`` (no cache), ``short`` (one token too few),
``refuses`` (every third request), ``dies`` (at the tenth request), ``breaks-off`` (in the middle of every answer),
``no-usage``, ``never-ready``, ``dies-early``, ``errs`` (in what is not streamed), ``omni`` (labels its
samples by stage, as vLLM-Omni does, and counts for a later stage too), ``counters-fall`` (after six requests),
``counts-nan``, ``counts-words`` and ``counts-nothing`` (no numbers, or no counters at all), ``spells-nothing`` (no text
of a prompt), ``crlf``, ``named`` and ``pings`` (other forms of server-sent events), ``no-end`` (no line behind the last
one), and ``says:JSON`` (that as the first event).
"""

from __future__ import annotations

import http.server
import json
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any

BLOCK = 16
FALLS_AFTER = 6
METRICS = """\
vllm:prefix_cache_queries_total{{engine="0"}} {queries}.0
vllm:prefix_cache_hits_total{{engine="0"}} {hits}.0
vllm:cache_config_info{{block_size="16",engine="0",num_gpu_blocks="100"}} 1.0
"""
OMNI = """\
vllm:prefix_cache_queries_total{{model_name="fake",stage="0",replica="0"}} {queries}.0
vllm:prefix_cache_queries_total{{model_name="fake",stage="1",replica="0"}} 1e6
vllm:prefix_cache_hits_total{{model_name="fake",stage="0",replica="0"}} {hits}.0
vllm:prefix_cache_hits_total{{model_name="fake",stage="1",replica="0"}} {later}.0
"""


class FakeOpenAI(http.server.ThreadingHTTPServer):
    """What it was asked is in ``asked``; use it as a context manager to serve in a thread."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, port: int = 0, behaviours: frozenset[str] = frozenset()) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.behaviours = behaviours
        self.asked: list[dict[str, Any]] = []
        self.keys: set[str | None] = set()
        self.known: set[tuple[int, ...]] = set()
        self.queries = self.hits = self.open = self.most_open = 0
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def count(self, tokens: list[int]) -> None:
        blocks = [tuple(tokens[:end]) for end in range(BLOCK, len(tokens) + 1, BLOCK)]
        self.queries += len(tokens)
        if "off" not in self.behaviours:
            self.hits += BLOCK * sum(block in self.known for block in blocks)
            self.known.update(blocks)

    def __enter__(self) -> FakeOpenAI:
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    server: FakeOpenAI
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/health":
            self._send(503 if "never-ready" in self.server.behaviours else 200, b"")
        elif self.path == "/v1/models":
            self._send(200, json.dumps({"data": [{"id": "fake"}]}).encode())
        elif self.path != "/metrics":
            self._send(404, b"there is nothing")
        elif "counts-nothing" in self.server.behaviours:
            self._send(404, b"no counters")
        else:
            told = OMNI if "omni" in self.server.behaviours else METRICS
            if "counters-fall" in self.server.behaviours and len(self.server.asked) > FALLS_AFTER:
                self.server.queries = self.server.hits = 0
            for behaviour, value in (("counts-nan", "NaN"), ("counts-words", "many")):
                if behaviour in self.server.behaviours:
                    told = told.replace("{queries}.0", value)
            known = {"queries": self.server.queries, "hits": self.server.hits, "later": 7 * self.server.queries}
            self._send(200, told.format(**known).encode())

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server = self.server
        if self.path == "/detokenize" and "spells-nothing" in server.behaviours:
            self._send(200, b"<html>")
        elif self.path == "/detokenize":
            self._send(200, json.dumps({"prompt": " ".join(map(str, body["tokens"]))}).encode())
        if self.path == "/detokenize":
            return
        with server.lock:
            server.asked.append(body)
            server.keys.add(self.headers.get("Authorization"))
            server.open += 1
            server.most_open = max(server.most_open, server.open)
            server.count(body.get("prompt", []))
            number = len(server.asked)
        try:
            if "dies" in server.behaviours and number >= 10:
                os._exit(1)
            if "refuses" in server.behaviours and number % 3 == 0:
                self._send(503, b'{"error": "too busy"}')
            elif not body.get("stream"):
                self._send(200, json.dumps(_whole(body, server.behaviours)).encode())
            else:
                self._stream(list(_events(body, server.behaviours)))
        finally:
            with server.lock:
                server.open -= 1

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, events: list[dict[str, Any]]) -> None:
        behaviours = self.server.behaviours
        said = [one.removeprefix("says:") for one in behaviours if one.startswith("says:")]
        form = "event: part\ndata: {}\n\n" if "named" in behaviours else "data: {}\n\n"
        text = "".join(form.format(one) for one in [*said, *map(json.dumps, events), "[DONE]"])
        text = f": ping\n\n{text}" if "pings" in behaviours else text
        text = text.replace("data: [DONE]", "").rstrip() if "no-end" in behaviours else text
        whole = (text.replace("\n", "\r\n") if "crlf" in behaviours else text).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(whole)))
        self.end_headers()
        if "breaks-off" in self.server.behaviours:
            self.wfile.write(whole[: len(whole) // 2])
            self.close_connection = True
            return
        # Cut where no event ends: a client has to put them together.
        for start in range(0, len(whole), 100):
            self.wfile.write(whole[start : start + 100])

    def log_message(self, *words: object) -> None:
        pass


def _events(body: dict[str, Any], behaviours: frozenset[str]) -> Iterator[dict[str, Any]]:
    count = body["max_tokens"] - ("short" in behaviours)
    chat = "messages" in body
    for _ in range(count):
        yield {"choices": [{"delta": {"content": "a"}} if chat else {"text": "a"}], "usage": None}
    usage: dict[str, Any] = {"completion_tokens": count}
    if chat:
        yield {"choices": [{"delta": {"audio": {"id": "1", "data": "AAAA"}}}]}
        usage = {"completion_tokens": count + 50, "completion_tokens_details": {"text_tokens": count}}
    yield {"choices": [], **({} if "no-usage" in behaviours else {"usage": usage})}


def _whole(body: dict[str, Any], behaviours: frozenset[str]) -> dict[str, Any]:
    tokens = [sum(body["prompt"]) % 97 + place for place in range(body["max_tokens"])]
    if "errs" in behaviours:
        tokens[-1] += 1
    usage = {"prompt_tokens_details": {"cached_tokens": 0 if "off" in behaviours else BLOCK}}
    return {"choices": [{"text": " ".join(map(str, tokens)), "token_ids": tokens}], "usage": usage}


def main(port: int, behaviours: frozenset[str]) -> int:
    print("a fake server", flush=True)
    if "dies-early" in behaviours:
        print("out of memory", flush=True)
        return 3
    FakeOpenAI(port, behaviours).serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), frozenset(sys.argv[2:])))
