"""One vLLM OpenAI server: started, asked, measured, stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final, Self

from omnicfg.bench.metrics import Watch, resident_of
from omnicfg.serve.child import child
from omnicfg.serve.processes import session_members

STOP_S: Final = 20.0


class Server:
    """``python -m vllm.entrypoints.openai.api_server`` as a child process; a context manager."""

    def __init__(self, name: str, arguments: list[str], port: int, log: Path, environment: Mapping[str, str]) -> None:
        self.name, self.port, self.log = name, port, log
        self.url = f"http://127.0.0.1:{port}"
        module = "vllm.entrypoints.openai.api_server"
        command = [sys.executable, "-m", module, "--host", "127.0.0.1", "--port", str(port), *arguments]
        self._started = time.monotonic()
        self._held = ExitStack()
        output = self._held.enter_context(log.open("w"))
        self.process = self._held.enter_context(
            child(command, environment, grace_s=STOP_S, stdout=output, stderr=subprocess.STDOUT)
        )

    def wait_ready(self, timeout: float) -> float:
        """Seconds from start to the first healthy answer."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if self._healthy():
                return time.monotonic() - self._started
            time.sleep(0.5)
        raise RuntimeError(f"server {self.name} was not healthy after {timeout:.0f} s: see {self.log}")

    def wait_told(self, text: str, timeout: float) -> None:
        """Until its log has this text; a server that is healthy before will not say it any more."""
        deadline = time.monotonic() + timeout
        while text not in self.log.read_text(errors="replace"):
            if self._healthy() or time.monotonic() > deadline:
                return
            time.sleep(0.5)

    def _healthy(self) -> bool:
        if self.process.poll() is not None:
            raise RuntimeError(f"server {self.name} ended with {self.process.returncode}: see {self.log}")
        try:
            self.get("/health")
        except (OSError, urllib.error.URLError):
            return False
        return True

    def get(self, path: str) -> str:
        """The body of a GET."""
        with urllib.request.urlopen(self.url + path, timeout=10) as answer:
            body: bytes = answer.read()
        return body.decode()

    def post(self, path: str, body: Mapping[str, Any] | None = None, timeout: float = 120) -> str:
        """The body of a POST's answer."""
        data = json.dumps(body or {}).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            text: bytes = answer.read()
        return text.decode()

    def metrics(self) -> dict[str, float]:
        """Every sample of ``/metrics``, summed over its labels."""
        return Watch(self.url).counters()

    def cache_tokens(self) -> int:
        """Tokens that fit into the KV cache, from what vLLM logged at start."""
        tokens = Watch(self.url).cache_tokens(self.log)
        if tokens is None:
            raise RuntimeError(f"vLLM did not say how many tokens fit: see {self.log}")
        return tokens

    def resident(self) -> dict[str, float]:
        """GiB of VmRSS by process: this one and those of its session."""
        return {f"{_name(pid)} {pid}": round(resident_of(pid), 3) for pid in session_members(self.process.pid)}

    def cpu_seconds(self) -> float:
        """What this process and those of its session have had of the CPUs so far."""
        return sum(map(_cpu_seconds, session_members(self.process.pid)))

    def engine_processes(self) -> list[int]:
        """Those that schedule and compute: vLLM gives them titles of their own."""
        return [pid for pid in session_members(self.process.pid) if _name(pid).startswith("VLLM::")]

    def open_files(self) -> int:
        """Open file descriptors of this process and those of its session."""
        return sum(map(_open_files, session_members(self.process.pid)))

    def stop(self) -> int:
        """End the server and what it started; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=STOP_S)
        self._held.close()
        return int(self.process.returncode)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:  # it ended meanwhile
        return "?"


def _cpu_seconds(pid: int) -> float:
    """User and system time of all threads: proc(5), fields 14 and 15 of ``stat``."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _open_files(pid: int) -> int:
    try:
        return len(list(Path(f"/proc/{pid}/fd").iterdir()))
    except OSError:
        return 0
