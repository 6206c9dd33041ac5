"""``omnicfg serve`` without a front, told to stop while it has more to answer than it can in the time that is left."""

from __future__ import annotations

import itertools
import json
import time
from pathlib import Path

import pytest

from omnicfg.serve.machine import installed_vllm
from tests.patience import until
from tests.serve.served import Served, body
from tests.serve.test_serving_rows import MODEL, SETTINGS
from tests.waves import asked_at_once

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(installed_vllm() is None, reason="needs the extra cpu or cuda"),
]

DRAIN_S = 1
KILLED_S = DRAIN_S + 20
"""How long after the signal a server is killed that does not end by itself."""


def test_what_outlasts_the_time_is_told_and_the_server_ends_by_itself(tmp_path: Path) -> None:
    plan = {**SETTINGS, "stages.0.shutdown_timeout": DRAIN_S}
    words = [word for name, value in plan.items() for word in ("--set", f"{name}={json.dumps(value)}")]
    asked = {"model": "tiny-thinker", "prompt": list(range(300, 400)), "max_tokens": 900, "ignore_eos": True}
    streams = itertools.cycle([True, False])
    with Served(tmp_path / "log", "qwen2_5_omni", "--model", MODEL, *words) as server:
        session = server.session
        with asked_at_once(lambda: server.ask("/v1/completions", body(**asked, stream=next(streams)))[0], 64) as told:
            until(server.running)
            began = time.monotonic()
            assert server.stop() == 0
            took_s = time.monotonic() - began
        assert took_s < KILLED_S, server.log.read_text()[-2000:]
        assert set(told) <= {200, 500, 503, 599}, "streams are cut off; 500 where vLLM knows what became of its engine"
        assert server.leftovers(session) == []
