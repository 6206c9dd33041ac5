"""Requests one at a time, and all that comes of them: tokens, text, hidden states, codes of speech."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from omnicfg.bench.loads import Load
from omnicfg.bench.prompts import Prompt
from omnicfg.bench.server import Server
from omnicfg.engine.shards import connect
from omnicfg.engine.spec import request_flag
from omnicfg.engine.transport import Payload, PayloadAssembler, RowLayout
from omnicfg.errors import ServeError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PASSES: Final = 2
"""Every prompt is sent twice: the second time, a cache knows it."""
_ROWS_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Question:
    """A prompt of a load, sent in a pass."""

    load: Load
    index: int
    turn: int
    prompt: Prompt

    @property
    def name(self) -> str:
        return f"{self.load.name}-{self.index}-{self.turn}"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a question. ``rows`` has shape ``[tokens, names, width]``; ``None`` where none were offered."""

    text: str
    tokens: list[int]
    cached: int
    rows: NDArray[np.float32] | None = None
    complete: bool = True
    codes: list[list[int]] | None = None


def questions(loads: Sequence[Load], prompts: Sequence[Sequence[Prompt]], each: int) -> list[Question]:
    """The first ``each`` prompts of every load, all of them as often as there are passes."""
    return [
        Question(load, index, turn, prompt)
        for load, made in zip(loads, prompts, strict=True)
        for turn in range(PASSES)
        for index, prompt in enumerate(made[:each])
    ]


def in_text(server: Server, question: Question, rows: Rows | None) -> Answer:
    """Asks for an answer in text, greedily. Raises :class:`ServeError`."""
    body: dict[str, Any] = {
        "model": server.model,
        "prompt": question.prompt.tokens,
        "max_tokens": question.prompt.output_tokens,
        "temperature": 0,
        "ignore_eos": True,
        "stop_token_ids": [],
        "return_token_ids": True,
    }
    if rows is not None:
        body["kv_transfer_params"] = request_flag(question.name)
    told = server.watch.post("/v1/completions", body)
    choice = told["choices"][0]
    answer = Answer(choice["text"], list(choice.get("token_ids") or ()), _cached(told))
    if rows is None:
        return answer
    payload = rows.payload(question.name)
    return Answer(answer.text, answer.tokens, answer.cached, rows.array(payload), payload.complete)


def in_speech(server: Server, question: Question, seed: int | None) -> Answer:
    """Asks for an answer in speech; the text of the question is the server's own spelling of the prompt."""
    text = server.watch.spelled(server.model, question.prompt.tokens)
    asked: dict[str, Any] = {
        "model": server.model,
        "messages": [{"role": "user", "content": text}],
        "modalities": ["text", "audio"],
        "max_tokens": question.prompt.output_tokens,
        "temperature": 0,
        "ignore_eos": True,
        "stop_token_ids": [],
        "return_token_ids": True,
    }
    if seed is not None:
        asked["seed"] = seed
    told = server.watch.post("/v1/chat/completions", asked)
    choice = told["choices"][0]
    message = choice["message"]
    codes = (message.get("audio") or {}).get("token_ids")
    return Answer(message.get("content") or "", list(choice.get("token_ids") or ()), _cached(told), codes=codes)


def _cached(told: dict[str, Any]) -> int:
    details = (told.get("usage") or {}).get("prompt_tokens_details") or {}
    return int(details.get("cached_tokens") or 0)


class Rows:
    """The consumer of a server's hidden states, in a thread of its own; a context manager."""

    def __init__(self, socket: Path) -> None:
        self._receiver = connect(socket)
        self._payloads: dict[str, Payload] = {}
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    @property
    def layout(self) -> RowLayout:
        """What the bytes of a token mean."""
        return self._receiver.layout

    def payload(self, key: str) -> Payload:
        """The rows of the request with this key. Raises :class:`ServeError` where they do not come."""
        deadline = time.monotonic() + _ROWS_S
        with self._news:
            while key not in self._payloads:
                if not self._news.wait(max(deadline - time.monotonic(), 0)) and time.monotonic() >= deadline:
                    raise ServeError(f"no hidden states came of request {key} within {_ROWS_S:.0f} s")
            return self._payloads.pop(key)

    def array(self, payload: Payload) -> NDArray[np.float32]:
        """A payload's rows as float32."""
        return as_floats(payload.data, self.layout)

    def _follow(self) -> None:
        assembler = PayloadAssembler(self.layout)
        for message in self._receiver:
            payload = assembler.add(message)
            if payload is not None and payload.key is not None:
                with self._news:
                    self._payloads[payload.key] = payload
                    self._news.notify_all()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._receiver.close()
        self._thread.join(timeout=5)


def as_floats(data: memoryview, layout: RowLayout) -> NDArray[np.float32]:
    """Bytes of a layout as float32 of shape ``[tokens, names, width]``; numpy has no bfloat16, half of a float32."""
    import numpy as np

    shape = (-1, len(layout.names), layout.width)
    if layout.dtype == "bfloat16":
        widened = np.frombuffer(data, np.uint16).astype(np.uint32) << 16
        return widened.view(np.float32).reshape(shape)
    return np.frombuffer(data, np.dtype(layout.dtype)).astype(np.float32).reshape(shape)


def common(left: Sequence[int], right: Sequence[int]) -> int:
    """How many tokens two answers have in common at their beginning."""
    return next(_differing(left, right), min(len(left), len(right)))


def _differing(left: Sequence[int], right: Sequence[int]) -> Iterator[int]:
    return (place for place, (one, other) in enumerate(zip(left, right, strict=False)) if one != other)
