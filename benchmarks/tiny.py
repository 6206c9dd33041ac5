"""The tiny model's first stage on the CPU, for benchmarks that need one server and an empty cache now and then."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import omnicfg
from benchmarks.engine.support import engine_environment
from omnicfg.bench.arms import Arm
from omnicfg.bench.prompts import Vocabulary
from omnicfg.bench.server import Server, started
from omnicfg.bench.setting import HOST, Subject
from omnicfg.models import materialize
from omnicfg.serve.launch import Request
from omnicfg.serve.machine import this_machine
from omnicfg.serve.preflight import free_port
from omnicfg.serve.supervise import Address


@contextlib.contextmanager
def served(out: Path, settings: Sequence[str], arm: str) -> Iterator[tuple[Server, Path, Vocabulary]]:
    """The server, the model's directory and its words; ``settings`` are overrides of ``tiny_omni``."""
    directory = materialize("builtin:tiny-omni")
    config = json.loads((directory / "config.json").read_text())
    os.environ |= engine_environment(out, VLLM_SERVER_DEV_MODE="1")  # with the route that empties the prefix cache
    plan = omnicfg.resolve("tiny_omni", overrides=list(settings))
    request = Request(plan, str(directory), "tiny-omni", HOST, free_port(HOST), config=config)
    launch = Subject(Arm(arm), request, "bundled").launch(request, this_machine(), speech=False)
    with started(launch, Address.of(HOST, request.port), out / "server.log", lambda _: None) as server:
        yield server, directory, Vocabulary.of(directory, config)


def empty(server: Server) -> None:
    """Empty its prefix cache. Raises :class:`RuntimeError`."""
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=60)
    try:
        connection.request("POST", "/reset_prefix_cache")
        answer = connection.getresponse()
        if answer.status != http.HTTPStatus.OK:
            raise RuntimeError(f"/reset_prefix_cache answers {answer.status}: {answer.read()[:200]!r}")
    finally:
        connection.close()
