"""Our own client: token ids to ``/v1/completions``, texts that are to be spoken to ``/v1/chat/completions``.

A closed loop: as many requests at a time as the load says, the next one as soon as one is answered. Every request asks
for exactly its number of tokens, greedily. Bodies are made before the clock starts.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from omnicfg.bench.drivers import Task
from omnicfg.bench.prompts import Prompt, prompts_of
from omnicfg.bench.timing import Answered, summary
from omnicfg.engine.spec import request_flag
from omnicfg.errors import ServeError

if TYPE_CHECKING:
    import aiohttp

ANSWERS: Final = frozenset({"text", "speech"})
_TIMEOUT_S: Final = 3600
_IDLE_S: Final = 2.0
"""How long an idle connection is kept: uvicorn closes one after five seconds, and a request may not meet that."""
_SHOWN: Final = 300
_PCM16_RATE: Final = 24_000


def drive(task: Task) -> dict[str, Any]:
    """Sends every prompt of the load once."""
    return send(task, prompts_of(task.load, task.vocabulary))


def send(task: Task, prompts: list[Prompt]) -> dict[str, Any]:
    """Sends these prompts, as the load is sent."""
    path, bodies = _bodies(task, prompts)
    answers, seconds = asyncio.run(_closed_loop(task, path, bodies))
    for answer, prompt in zip(answers, prompts, strict=True):
        if answer.error is None and answer.tokens is None:
            answer.error = "the answer ended without its `usage`, so how many tokens came is not known"
        elif answer.error is None and answer.tokens != prompt.output_tokens:
            answer.error = f"{answer.tokens} tokens came of {prompt.output_tokens}"
        elif answer.error is None and task.load.answer == "speech" and answer.first_audio is None:
            answer.error = "no sound came"
    return summary(answers, seconds)


def _bodies(task: Task, prompts: list[Prompt]) -> tuple[str, list[bytes]]:
    common: dict[str, Any] = {
        "model": task.server.model,
        "temperature": 0,
        "ignore_eos": True,
        "stop_token_ids": [],  # a plan's own would end an answer early
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if task.rows:
        common["kv_transfer_params"] = request_flag()
    if task.load.answer == "text":
        return "/v1/completions", [
            _json({**common, "prompt": prompt.tokens, "max_tokens": prompt.output_tokens}) for prompt in prompts
        ]
    spoken = {**common, "modalities": ["text", "audio"]}
    return "/v1/chat/completions", [
        _json({**spoken, "messages": [{"role": "user", "content": text}], "max_tokens": prompt.output_tokens})
        for prompt, text in zip(prompts, _texts(task, prompts), strict=True)
    ]


def _texts(task: Task, prompts: list[Prompt]) -> Iterator[str]:
    """The prompts as the server's tokenizer spells them: a chat takes no token ids."""
    for prompt in prompts:
        yield task.server.watch.spelled(task.server.model, prompt.tokens)


def _json(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body).encode()


async def _closed_loop(task: Task, path: str, bodies: list[bytes]) -> tuple[list[Answered], float]:
    try:
        import aiohttp
    except ModuleNotFoundError:
        raise ServeError(
            "sending requests needs the Python package `aiohttp`", "`pip install 'omnicfg[bench]'`"
        ) from None
    waiting = iter(enumerate(bodies))
    answers: dict[int, Answered] = {}
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE_S)
    timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
    headers = {**task.server.watch.headers, "Content-Type": "application/json"}
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, headers=headers) as session:

        async def client() -> None:
            for index, body in waiting:
                answers[index] = await _ask(session, task.server.url + path, body)
                task.done(len(answers))

        began = time.perf_counter()
        await asyncio.gather(*(client() for _ in range(min(task.load.concurrency, len(bodies)))))
        seconds = time.perf_counter() - began
    return [answers[index] for index in range(len(bodies))], seconds


async def _ask(session: aiohttp.ClientSession, url: str, body: bytes) -> Answered:
    import aiohttp

    answer = Answered(time.perf_counter())
    try:
        async with session.post(url, data=body) as response:
            if response.status != 200:
                answer.error = f"{response.status}: {(await response.text())[:_SHOWN]}"
                return answer
            buffer = b""
            async for piece in response.content.iter_any():
                *events, buffer = (buffer + piece).replace(b"\r\n", b"\n").split(b"\n\n")
                for event in events:
                    _take(event, answer)
            _take(buffer, answer)
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError, LookupError) as error:
        answer.error = f"{type(error).__name__}: {error}"[:_SHOWN]
    return answer


def _take(event: bytes, answer: Answered) -> None:
    """One server-sent event, of which only data counts: what keeps a connection open has none.

    Raises ``ValueError`` where the data is no part of an answer.
    """
    lines = [line.removeprefix(b"data:").strip() for line in event.split(b"\n") if line.startswith(b"data:")]
    text = b"\n".join(lines)
    if not text or text == b"[DONE]":
        return
    now = time.perf_counter()
    try:
        _read(json.loads(text), answer, now)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        shown = text[:_SHOWN].decode(errors="replace")
        raise ValueError(f"what came is no part of an answer: {shown}") from None


def _read(chunk: Any, answer: Answered, now: float) -> None:
    """A part of an answer that came ``now``. Raises what reading it raises where it has another form."""
    if "error" in chunk:
        answer.error = json.dumps(chunk["error"])[:_SHOWN]
    usage = chunk.get("usage")
    if usage:
        details = usage.get("completion_tokens_details") or {}
        answer.tokens = int(details.get("text_tokens", usage["completion_tokens"]))
    for choice in chunk.get("choices") or ():
        delta = choice.get("delta") or {}
        if _sounds(chunk, delta):
            answer.first_audio = answer.first_audio or now
            answer.last_audio = now
            answer.audio_seconds += _seconds(chunk, delta)
        elif choice.get("text") is not None or delta.get("content") or choice.get("token_ids"):
            answer.first = answer.first or now
            answer.last = now


def _seconds(chunk: Mapping[str, Any], delta: Mapping[str, Any]) -> float:
    """How long a chunk's sound is. What OpenAI calls pcm16 has 24,000 samples a second, of 16 bits each; other forms
    are not measured.
    """
    data = "" if chunk.get("modality") == "audio" else delta["audio"]["data"]
    return (3 * len(data) // 4 - data.count("=")) / 2 / _PCM16_RATE


def _sounds(chunk: Mapping[str, Any], delta: Mapping[str, Any]) -> bool:
    """Whether a chunk brings sound, as OpenAI's form has it or as vLLM-Omni's does (``modality``)."""
    if chunk.get("modality") == "audio":
        return bool(delta.get("content"))
    return bool((delta.get("audio") or {}).get("data"))
