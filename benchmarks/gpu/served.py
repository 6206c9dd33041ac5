"""``omnicfg serve`` as a part starts it: until it answers or ends, asked, and stopped with all that is its own."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks.engine.support import Budget
from benchmarks.gpu.parts import GRACE_S, Context
from omnicfg.serve.child import child
from omnicfg.serve.preflight import free_port
from omnicfg.serve.processes import children, end_session, living

HOST: Final = "127.0.0.1"
SPOKEN: Final = {"modalities": ["text", "audio"], "audio": {"voice": "ethan", "format": "wav"}}
"""What a request has that wants speech too."""
_POLL_S: Final = 0.3
_ASKED_S: Final = 60.0


@dataclass(frozen=True)
class Served:
    """A server that was started. ``process`` leads ``omnicfg serve``'s session."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path
    _sessions: set[int] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def wait(self, seconds: float) -> float | None:
        """Seconds until ``/health`` is 200; ``None`` where the server ended before, or did not come to it."""
        began, limit = time.monotonic(), Budget(seconds)
        while self.process.poll() is None and limit.left > 0:
            self.processes()
            if self.ask("GET", "/health", seconds=2)[0] == http.client.OK:
                return time.monotonic() - began
            time.sleep(_POLL_S)
        return None

    def ask(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, seconds: float = _ASKED_S
    ) -> tuple[int, str]:
        """Status and body of an answer; 0 and the reason where none came."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=seconds)
        try:
            sent = None if body is None else json.dumps(body)
            connection.request(method, path, sent, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read().decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            return 0, f"{type(error).__name__}: {error}"
        finally:
            connection.close()

    def model(self) -> str:
        """What the server calls its model."""
        return str(json.loads(self.ask("GET", "/v1/models")[1])["data"][0]["id"])

    def processes(self) -> list[int]:
        """The server's own processes: those of every session that one of its children was ever seen to lead."""
        self._sessions.update({self.process.pid, *children(self.process.pid)})
        return [one.pid for one in living() if one.session in self._sessions]

    def said(self) -> str:
        """All that it has written."""
        return self.log.read_text(errors="replace")


@contextmanager
def served(
    context: Context, words: Sequence[str], log: Path, devices: str = "0,1", **variables: str
) -> Iterator[Served]:
    """``omnicfg serve WORDS`` on a free port; stopped at the end, so that nothing of it is left."""
    port = free_port(HOST)
    command = [sys.executable, "-m", "omnicfg.cli", "serve", *words, "--port", str(port), "--restart", "0"]
    environment = context.environment(devices) | variables
    with (
        log.open("w") as output,
        child(command, environment, grace_s=GRACE_S, stdout=output, stderr=subprocess.STDOUT) as process,
    ):
        try:
            yield Served(process, port, log)
        finally:
            end_session(process.pid, GRACE_S)
