"""What a server counts: the samples of ``/metrics``, and the memory of its processes."""

from __future__ import annotations

import http.client
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from omnicfg.errors import ServeError
from omnicfg.secrets import without_passwords
from omnicfg.serve.processes import session_members

QUERIES: Final = "vllm:prefix_cache_queries_total"
HITS: Final = "vllm:prefix_cache_hits_total"
PREEMPTIONS: Final = "vllm:num_preemptions_total"
_SAMPLE: Final = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)", re.MULTILINE)
_STAGE_0: Final = re.compile(r"VLLM::(EngineCore|Worker|StageEngineCoreProc_stage0_)")
_LATER: Final = re.compile(r'(?:^|,)stage="[^0]')
"""A sample of a later stage: vLLM-Omni labels them all, in the order of the pipeline."""
_SHOWN: Final = 200
_METRICS, _SPELL, _MODELS = "/metrics", "/detokenize", "/v1/models"
_RUNNING: Final = "See whether the server runs, and is to be found there."
_WHY: Final = {
    _MODELS: "`--url` takes an OpenAI server's address without `/v1`, and `--api-key` the key that it wants.",
    _METRICS: "Hits are the difference of vLLM's counters there: measure a server that has them.",
    _SPELL: "Prompts that are to be spoken about are spelled by the server, as vLLM does.",
}
"""Why a path is asked at all: not every server that speaks OpenAI's protocol has it."""
_CACHE: Final = "vllm:cache_config_info"
_LOGGED: Final = re.compile(
    r"^(?!.*(?:StageEngineCoreProc_stage[1-9]|\(MainProcess pid=)).*KV cache size: ([\d,]+) tokens", re.MULTILINE
)
"""Not of a later stage: an engine core of vLLM-Omni's own name, or the one process of a stage of the bundled engine."""


class Watch:
    """The counters of the server at ``url``; ``key`` is what clients have to send."""

    def __init__(self, url: str, key: str | None = None) -> None:
        self.url = url
        self._shown = without_passwords(url)
        self.headers = {"Authorization": f"Bearer {key}"} if key else {}

    def get(self, path: str) -> str:
        """The body of a GET that is answered by 200. Raises :class:`ServeError` otherwise."""
        return self._asked("GET", path)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """The JSON that a POST is answered by. Raises :class:`ServeError`."""
        text = self._asked("POST", path, json.dumps(body))
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise ServeError(f"{self._shown}{path} answers no JSON: {text[:_SHOWN]}") from None

    def spelled(self, model: str, tokens: Sequence[int]) -> str:
        """Token ids as the server's tokenizer spells them. Raises :class:`ServeError`."""
        told = self.post(_SPELL, {"model": model, "tokens": tokens})
        if not isinstance(told, dict) or not isinstance(told.get("prompt"), str):
            raise ServeError(f"{self._shown}{_SPELL} answers no text: {str(told)[:_SHOWN]}", _WHY[_SPELL])
        return str(told["prompt"])

    def model(self) -> str:
        """The first model that the server offers."""
        try:
            return str(json.loads(self.get(_MODELS))["data"][0]["id"])
        except (ValueError, LookupError, TypeError):
            raise ServeError(
                f"{self._shown}{_MODELS} names no model", "`--url` takes an OpenAI server's address."
            ) from None

    def counters(self) -> dict[str, float]:
        """Every sample of the first stage, summed over its labels."""
        counters: dict[str, float] = {}
        for name, labels, value in _SAMPLE.findall(self.get(_METRICS)):
            if _LATER.search(labels):
                continue
            counters[name] = counters.get(name, 0.0) + _number(value)
        return counters

    def moved(self, before: Mapping[str, float], names: Iterable[str]) -> dict[str, int]:
        """By how much counters went up since. Raises :class:`ServeError` where that is not known."""
        now = self.counters()
        counted = {name: now.get(name, 0.0) - before.get(name, 0.0) for name in names}
        for name, value in counted.items():
            if not 0 <= value < math.inf:
                raise ServeError(
                    f"{self._shown}{_METRICS}: {name} went from {before.get(name, 0.0):g} to {now.get(name, 0.0):g}",
                    "A counter only goes up: was the server started anew under the load?",
                )
        return {name: int(value) for name, value in counted.items()}

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
        for name, labels, _ in _SAMPLE.findall(self.get(_METRICS)):
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
            raise ServeError(f"{self._shown}{path} does not answer: {_reason(error)}", _RUNNING) from None
        finally:
            connection.close()
        if answer.status != http.HTTPStatus.OK:
            raise ServeError(f"{self._shown}{path} answers {answer.status}: {text[:_SHOWN]}", _WHY.get(path))
        return text

    def _headers(self, body: str | None) -> dict[str, str]:
        return self.headers if body is None else {**self.headers, "Content-Type": "application/json"}


def _number(value: str) -> float:
    """A sample's value; not-a-number where the text is none."""
    try:
        return float(value)
    except ValueError:
        return math.nan


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
