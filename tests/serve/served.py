"""``omnicfg serve`` as a user starts it: a process with its log, and the address that it announces."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from omnicfg.demo import left_of
from omnicfg.serve.processes import children, session_members

START_S = 600.0
END_S = 180.0


class Served:
    """A server that is up; a context manager."""

    def __init__(
        self,
        log: Path,
        *words: str,
        python_path: Sequence[str] = (),
        program: Sequence[str] = ("-m", "omnicfg.cli"),
    ) -> None:
        self.log = log
        environment = {**os.environ, "VLLM_NO_USAGE_STATS": "1", **with_python_path(python_path)}
        command = [sys.executable, *program, "serve", *words, "--port", "0"]
        with log.open("w") as messages:
            self.process = subprocess.Popen(
                command, env=environment, stdout=subprocess.PIPE, stderr=messages, text=True
            )
        self.announced = self.next_announcement()
        found = re.search(r"http://\S+(?=/v1)", self.announced)
        assert found, f"not ready:\n{log.read_text()[-4000:]}"
        self.url = found[0]

    @property
    def session(self) -> int:
        """The session of the server's own processes."""
        [session] = children(self.process.pid)
        return session

    def next_announcement(self) -> str:
        """The next line of the standard output, waited for as long as a start may take."""
        deadline = threading.Timer(START_S, self.process.kill)
        deadline.start()
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        deadline.cancel()
        return line

    def ask(self, path: str, body: bytes | None = None, key: str | None = None) -> tuple[int, bytes]:
        """Status and body of the answer to a GET, or to a POST of a raw body."""
        address = urlsplit(self.url)
        connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=120)
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
        try:
            connection.request("GET" if body is None else "POST", path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def metrics(self) -> dict[str, float]:
        """The samples of ``/metrics``, summed over their labels."""
        samples: dict[str, float] = {}
        for name, value in re.findall(
            r"^([a-z][\w:]*)(?:\{.*\})? (\S+)$", self.ask("/metrics")[1].decode(), re.MULTILINE
        ):
            samples[name] = samples.get(name, 0.0) + float(value)
        return samples

    def running(self) -> float:
        """How many requests vLLM has under way."""
        return self.metrics()["vllm:num_requests_running"]

    def command_lines(self) -> dict[int, bytes]:
        """The command lines, or titles, of the server's own processes."""
        found: dict[int, bytes] = {}
        for pid in session_members(self.session):
            with contextlib.suppress(OSError):  # it has just ended
                found[pid] = Path(f"/proc/{pid}/cmdline").read_bytes()
        return found

    def engine_process(self) -> int:
        """The process of the engine core, by the title that vLLM gives it."""
        [engine] = [pid for pid, title in self.command_lines().items() if b"EngineCore" in title]
        return engine

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.stop()

    def stop(self, number: signal.Signals = signal.SIGINT) -> int:
        """The exit status after a stop signal; by default that of Ctrl-C."""
        self.process.send_signal(number)
        return self.end()

    def end(self) -> int:
        """The exit status, once it has ended."""
        return self.process.wait(timeout=END_S)

    def leftovers(self, session: int) -> list[int]:
        """What still lives of the server's processes some time after its end."""
        return left_of(session)


def with_python_path(paths: Sequence[str]) -> dict[str, str]:
    """The environment variable by which Python also finds what lies there; none where there is nothing to add."""
    inherited = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": os.pathsep.join([*([inherited] if inherited else []), *paths])} if paths else {}


def body(**fields: Any) -> bytes:
    """A request's body."""
    return json.dumps(fields).encode()
