"""What a server counts: the samples of ``/metrics``, and the memory of its processes."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from omnicfg.errors import ServeError
from omnicfg.serve.processes import session_members

QUERIES: Final = "vllm:prefix_cache_queries_total"
HITS: Final = "vllm:prefix_cache_hits_total"
PREEMPTIONS: Final = "vllm:num_preemptions_total"
_SAMPLE: Final = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)", re.MULTILINE)
_STAGE_0: Final = re.compile(r"VLLM::(EngineCore|Worker|StageEngineCoreProc_stage0_)")
_LATER: Final = re.compile(r'(?:^|,)stage="[^0]')
"""A sample of a later stage: vLLM-Omni labels them all, in the order of the pipeline."""
_CACHE: Final = "vllm:cache_config_info"
_LOGGED: Final = re.compile(
    r"^(?!.*(?:StageEngineCoreProc_stage[1-9]|\(MainProcess pid=)).*KV cache size: ([\d,]+) tokens", re.MULTILINE
)
"""Not of a later stage: an engine core of vLLM-Omni's own name, or the one process of a stage of the bundled engine."""


class Watch:
    """The counters of the server at ``url``; ``key`` is what clients have to send."""

    def __init__(self, url: str, key: str | None = None) -> None:
        self.url = url
        self.headers = {"Authorization": f"Bearer {key}"} if key else {}

    def get(self, path: str) -> str:
        """The body of a GET that is answered by 200. Raises :class:`ServeError` otherwise."""
        return self._asked("GET", path)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """The JSON that a POST is answered by. Raises :class:`ServeError`."""
        return json.loads(self._asked("POST", path, json.dumps(body)))

    def model(self) -> str:
        """The first model that the server offers."""
        try:
            return str(json.loads(self.get("/v1/models"))["data"][0]["id"])
        except (ValueError, LookupError, TypeError):
            raise ServeError(
                f"{self.url}/v1/models names no model", "`--url` takes an OpenAI server's address."
            ) from None

    def counters(self) -> dict[str, float]:
        """Every sample of the first stage, summed over its labels."""
        counters: dict[str, float] = {}
        for name, labels, value in _SAMPLE.findall(self.get("/metrics")):
            if _LATER.search(labels):
                continue
            counters[name] = counters.get(name, 0.0) + float(value)
        return counters

    def cache_tokens(self, log: Path | None) -> int | None:
        """Tokens that fit into the KV cache: what vLLM logged, or its blocks; ``None`` where neither is told."""
        logged = _LOGGED.findall(log.read_text(errors="replace")) if log else []
        if logged:
            return int(logged[-1].replace(",", ""))
        told = self._cache()
        return told["num_gpu_blocks"] * told["block_size"] if {"num_gpu_blocks", "block_size"} <= told.keys() else None

    def block_tokens(self) -> int | None:
        """Tokens in a block of the KV cache, where the server tells."""
        return self._cache().get("block_size")

    def _cache(self) -> dict[str, int]:
        """What the server tells of its KV cache, as far as it is numbers."""
        for name, labels, _ in _SAMPLE.findall(self.get("/metrics")):
            if name == _CACHE and not _LATER.search(labels):
                return {label: int(value) for label, value in re.findall(r'(\w+)="(\d+)"', labels)}
        return {}

    def _asked(self, method: str, path: str, body: str | None = None) -> str:
        address = urlsplit(self.url)
        secure = address.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        connection = kind(address.hostname or "", address.port, timeout=60)
        try:
            connection.request(method, address.path.rstrip("/") + path, body, self._headers(body))
            answer = connection.getresponse()
            text = answer.read().decode(errors="replace")
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise ServeError(f"{self.url}{path} does not answer: {_reason(error)}") from None
        finally:
            connection.close()
        if answer.status != http.HTTPStatus.OK:
            raise ServeError(f"{self.url}{path} answers {answer.status}: {text[:200]}")
        return text

    def _headers(self, body: str | None) -> dict[str, str]:
        return self.headers if body is None else {**self.headers, "Content-Type": "application/json"}


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def resident(session: int) -> dict[str, float]:
    """GiB of VmRSS: of stage 0's own processes, and of all of the server's.

    vLLM titles its processes: the engine core and its workers are the first stage's, and vLLM-Omni's engine core says
    whose it is. Where there is none of them, stage 0 is left out.
    """
    of_stage, of_all, found = 0.0, 0.0, False
    for pid in session_members(session):
        size = resident_of(pid)
        of_all += size
        if _STAGE_0.search(_title(pid)):
            of_stage, found = of_stage + size, True
    return {**({"stage_0": round(of_stage, 3)} if found else {}), "all": round(of_all, 3)}


def _title(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def resident_of(pid: int) -> float:
    """GiB of VmRSS of a process; 0 for one that has ended."""
    try:
        found = re.search(r"^VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    except OSError:
        return 0.0
    return int(found[1]) / 2**20 if found else 0.0
