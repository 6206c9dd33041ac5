"""``omnicfg serve tiny-omni`` loses a process of its first stage, or is killed itself: nobody waits, nothing stays."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from omnicfg.serve.machine import installed_vllm
from omnicfg.serve.processes import children, session_members
from omnicfg.serve.runtime import runtime_directory
from tests.patience import until
from tests.serve.served import Served

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(installed_vllm() is None, reason="needs the extra cpu or cuda"),
]

NAME = "tiny-omni"
SPEECH: dict[str, Any] = {"modalities": ["text", "audio"], "audio": {"voice": "ethan", "format": "wav"}}
TEXT: dict[str, Any] = {"extra_body": {"ignore_eos": True}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("faults") / "log", NAME, "--restart", "9") as served:
        yield served


def client_of(server: Served) -> Any:
    import openai

    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=300)


def ask(client: Any, tokens: int, **more: Any) -> Any:
    messages = [{"role": "user", "content": "Say something."}]
    return client.chat.completions.create(model=NAME, messages=messages, max_tokens=tokens, temperature=0, **more)


def process(server: Served, title: bytes) -> int:
    """The process of stage 0 in whose title or command line that stands."""
    [found] = [pid for pid, line in server.command_lines().items() if title in line]
    return found


def shared_memory(session: int) -> set[Path]:
    """The named segments that the processes of a session have mapped."""
    maps = "".join(Path(f"/proc/{pid}/maps").read_text() for pid in session_members(session))
    return {Path(name) for name in re.findall(r"/dev/shm/\S+$", maps, re.MULTILINE)}


def sockets(server: Served) -> Path:
    return runtime_directory(f"127.0.0.1-{server.url.rpartition(':')[2]}")


@pytest.mark.parametrize("title", [b"VLLM::EngineCore", b"vllm.entrypoints.openai.api_server"])
def test_a_killed_process_of_the_first_stage_fails_all_requests_and_all_is_started_again(
    title: bytes, server: Served
) -> None:
    import openai

    session, victim = server.session, process(server, title)
    segments = shared_memory(session)
    assert segments, "vLLM's processes share memory"
    with client_of(server) as client, ThreadPoolExecutor() as pool:
        requests = [pool.submit(ask, client, 1500, **SPEECH), pool.submit(ask, client, 1500, **TEXT)]
        until(lambda: server.running() == 2)
        os.kill(victim, signal.SIGKILL)
        for request in requests:
            with pytest.raises(openai.InternalServerError, match=r"stage 0|EngineCore"):
                request.result(timeout=120)
    assert server.url in server.next_announcement()
    until(lambda: session_members(session) == [])
    assert not [segment for segment in segments if segment.exists()]
    with client_of(server) as client:
        assert ask(client, 8, **SPEECH).choices[0].message.audio.data


def test_a_killed_serve_leaves_nothing(server: Served) -> None:
    session = server.session
    segments, folder = shared_memory(session), sockets(server)
    assert folder.exists()
    server.process.kill()
    server.process.wait()
    until(lambda: session_members(session) == [])
    until(lambda: not folder.exists())
    assert not [segment for segment in segments if segment.exists()]


def test_a_bench_that_is_killed_while_vllm_starts_leaves_nothing(tmp_path: Path) -> None:
    words = ["bench", "prefix-cache", NAME, "--loads", "P256_h0_c4", "--rounds", "1", "--out", str(tmp_path / "out")]
    with (tmp_path / "log").open("w") as log:
        command = [sys.executable, "-m", "omnicfg.cli", *words]
        parent = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "VLLM_NO_USAGE_STATS": "1"})
    try:
        [session] = until(
            lambda: [child for child in children(parent.pid) if _is_starting(child, b"VLLM::Worker")], 300
        )
    finally:
        parent.kill()
        parent.wait()
    until(lambda: session_members(session) == [])


def _is_starting(session: int, title: bytes) -> bool:
    """Whether a process of that title is in the session."""
    for pid in session_members(session):
        with contextlib.suppress(OSError):  # it has just ended
            if title in Path(f"/proc/{pid}/cmdline").read_bytes():
                return True
    return False
