"""One vLLM OpenAI server: started, asked, measured, stopped."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self


class Server:
    """``python -m vllm.entrypoints.openai.api_server`` as a child process; a context manager."""

    def __init__(self, name: str, arguments: list[str], port: int, log: Path, environment: Mapping[str, str]) -> None:
        self.name, self.port, self.log = name, port, log
        self.url = f"http://127.0.0.1:{port}"
        module = "vllm.entrypoints.openai.api_server"
        command = [sys.executable, "-m", module, "--host", "127.0.0.1", "--port", str(port), *arguments]
        self._started = time.monotonic()
        with log.open("w") as output:
            self.process = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, env=dict(environment), start_new_session=True
            )

    def wait_ready(self, timeout: float) -> float:
        """Seconds from start to the first healthy answer."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise RuntimeError(f"server {self.name} ended with {self.process.returncode}: see {self.log}")
            try:
                self.get("/health")
            except (OSError, urllib.error.URLError):
                time.sleep(0.5)
            else:
                return time.monotonic() - self._started
        raise RuntimeError(f"server {self.name} was not healthy after {timeout:.0f} s: see {self.log}")

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
        samples: dict[str, float] = {}
        for line in self.get("/metrics").splitlines():
            if match := re.match(r"([a-zA-Z_:][\w:]*)(?:\{.*\})? (\S+)$", line):
                samples[match[1]] = samples.get(match[1], 0.0) + float(match[2])
        return samples

    def cache_tokens(self) -> int:
        """Tokens that fit into the KV cache, from what vLLM logged at start."""
        found = re.findall(r"KV cache size: ([\d,]+) tokens", self.log.read_text())
        return int(found[-1].replace(",", ""))

    def resident(self) -> dict[str, float]:
        """GiB of VmRSS by process: this one and its descendants."""
        return {f"{name} {pid}": _resident(pid) for pid, name in _family(self.process.pid)}

    def open_files(self) -> int:
        """Open file descriptors of this process and its descendants."""
        return sum(_open_files(pid) for pid, _ in _family(self.process.pid))

    def stop(self) -> int:
        """End the server and what it started; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
        return self.process.returncode

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _family(root: int) -> list[tuple[int, str]]:
    """(pid, name) of a process and its descendants, from ``/proc``."""
    parents: dict[int, tuple[int, str]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                name, rest = (folder / "stat").read_text().split("(", 1)[1].rsplit(")", 1)
            except OSError:  # it ended meanwhile
                continue
            parents[int(folder.name)] = (int(rest.split()[1]), name)
    family = [root]
    for pid in family:  # grows while it is walked
        family += [child for child, (parent, _) in parents.items() if parent == pid]
    return [(pid, parents[pid][1]) for pid in family if pid in parents]


def _resident(pid: int) -> float:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    found = re.search(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)
    return round(int(found[1]) / 2**20, 3) if found else 0.0


def _open_files(pid: int) -> int:
    try:
        return len(list(Path(f"/proc/{pid}/fd").iterdir()))
    except OSError:
        return 0
