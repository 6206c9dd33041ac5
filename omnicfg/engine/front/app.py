"""HTTP: chats that ask for audio are answered here, everything else is vLLM's, byte for byte."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import uuid
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final
from urllib.parse import quote

import httpx

from omnicfg.engine.front.api_key import WITHOUT_BODY
from omnicfg.engine.front.asgi import JSON, Headers, Message, Noted, Receive, Send, respond
from omnicfg.engine.front.chat import (
    BODY_MOST,
    OUTLASTS,
    Answer,
    BadRequestError,
    body_too_long,
    error_body,
    may_be_chat,
    refuse,
    spoken,
    sse,
    wish_of,
)
from omnicfg.engine.front.desk import Audio, AudioEnd, Codes, Desk, Failure, RefusedError, UnavailableError
from omnicfg.engine.front.metrics import Metrics
from omnicfg.engine.front.turn import Text, Turn, TurnedAwayError

_HOP_BY_HOP: Final = frozenset(
    {"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"}
)
_NOT_KEPT: Final = _HOP_BY_HOP | {"date", "server"}
"""Of vLLM's answers: uvicorn says the last two itself, and they are said once."""
_OF_A_BODY: Final = frozenset({"content-length"})
"""What is said anew of the body that vLLM gets."""
_OF_OUR_BODY: Final = _OF_A_BODY | {"content-type", "accept", "accept-encoding"}
_OF_OUR_ANSWER: Final = _NOT_KEPT | {"content-length", "content-type", "content-encoding", "cache-control"}
"""Of vLLM's headers, what is said anew of an answer in speech."""
_LOOKS: Final = frozenset({"GET", "HEAD"})
_PRINTABLE: Final = "".join(map(chr, range(0x21, 0x7F)))
_EVENTS: Final = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]


class GoneError(Exception):
    """The client has gone."""


class Front:
    """The ASGI application. ``thinker`` asks vLLM's server, ``healthy`` tells whether every process is there."""

    def __init__(
        self,
        thinker: httpx.AsyncClient,
        desk: Desk,
        metrics: Metrics,
        *,
        voices: tuple[str, ...],
        default_voice: str,
        healthy: Callable[[], bool],
    ) -> None:
        self._thinker, self._desk, self._metrics = thinker, desk, metrics
        self._voices, self._default_voice = voices, default_voice
        self._healthy = healthy

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008, "reason": "there are no web sockets here"})
            return
        answering = Noted(send)
        try:
            await self._serve(scope, receive, answering)
        except GoneError:
            return
        except asyncio.CancelledError:  # the time that requests have after a stop signal is over
            if not answering.begun:  # otherwise it is cut off: the client sees an answer without its end
                await refuse(send, 503, OUTLASTS)
        except Exception as error:
            if not answering.begun:
                await refuse(send, 500, f"the server has failed: {type(error).__name__}; its log says how")
            raise

    async def _serve(self, scope: Message, receive: Receive, send: Noted) -> None:
        work: Coroutine[Any, Any, None]
        path, method = scope["path"], scope["method"]
        body = b"" if method in WITHOUT_BODY else await _body(receive)
        if body is None:
            await refuse(send, 413, body_too_long())
            return
        if path == "/health" and method in _LOOKS:
            work = self._health(send)
        elif path == "/metrics" and method in _LOOKS:
            work = self._show_metrics(send)
        elif may_be_chat(scope) and (chat := spoken(body)) is not None:
            work = self._speak(path, chat, _passed_on(scope["headers"], _HOP_BY_HOP | _OF_OUR_BODY), send)
        else:
            work = self._pass_on(scope, body, send)
        await _while_there(receive, work, send)

    # ---------------------------------------------------------------------------------------------------- what is ours

    async def _speak(self, path: str, body: Mapping[str, Any], headers: Headers, send: Send) -> None:
        outcome = "aborted"
        try:
            outcome = await self._answer(path, body, headers, send)
        except Exception:
            outcome = "failed"
            raise
        finally:
            self._metrics.requests.labels(outcome).inc()

    async def _answer(self, path: str, body: Mapping[str, Any], headers: Headers, send: Send) -> str:
        arrived = time.monotonic()
        try:
            wish = wish_of(body, self._voices, self._default_voice)
        except BadRequestError as error:
            await refuse(send, 400, str(error), error.parameter)
            return "refused"
        key = uuid.uuid4().hex
        async with Turn(self._thinker, self._desk, key, path, wish.body, headers) as turn:
            try:
                await turn.start({"voice": wish.voice, "seed": wish.seed})
            except RefusedError as error:
                await refuse(send, 400, str(error), "audio")
                return "refused"
            except UnavailableError as error:
                await refuse(send, 503, str(error))
                return "failed"
            except TurnedAwayError as error:
                await respond(send, error.status, error.body, [*JSON, *_passed_on(error.headers, _OF_OUR_ANSWER)])
                return "refused"
            except httpx.HTTPError as error:
                return await _unanswered(send, error)
            answer = Answer(wish, int(self._desk.links[-1].facts["sample_rate"]))
            return await (self._stream if wish.streamed else self._collect)(turn, answer, arrived, send)

    async def _collect(self, turn: Turn, answer: Answer, arrived: float, send: Send) -> str:
        async for event in turn:
            match event:
                case Text(chunk):
                    answer.add_text(chunk)
                case Audio(pcm):
                    self._count(pcm, answer, arrived)
                    answer.pcm.append(pcm)
                case AudioEnd(frames):
                    answer.frames = frames
                case Codes(codes):
                    answer.codes = codes
                case Failure(message):
                    await refuse(send, 500, message)
                    return "failed"
        packed = await asyncio.to_thread(lambda: json.dumps(answer.whole(), ensure_ascii=False).encode())
        await respond(send, 200, packed, [*JSON, *_passed_on(turn.headers, _OF_OUR_ANSWER)])
        return "ok"

    async def _stream(self, turn: Turn, answer: Answer, arrived: float, send: Send) -> str:
        headers = [*_EVENTS, *_passed_on(turn.headers, _OF_OUR_ANSWER)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async for event in turn:
            match event:
                case Text(chunk):
                    if (shown := answer.text_event(chunk)) is not None:
                        await _piece(send, sse(shown))
                case Audio(pcm):
                    self._count(pcm, answer, arrived)
                    await _piece(send, sse(answer.audio_event(pcm)))
                case AudioEnd(frames):
                    answer.frames = frames
                case Codes(codes):
                    answer.codes = codes
                case Failure(message):
                    await _piece(send, sse(error_body(message, 500)) + b"data: [DONE]\n\n", last=True)
                    return "failed"
        end = b"".join(sse(event) for event in answer.end_events())
        await _piece(send, end + b"data: [DONE]\n\n", last=True)
        return "ok"

    def _count(self, pcm: bytes, answer: Answer, arrived: float) -> None:
        if not answer.pcm and not answer.sounded:
            self._metrics.first_audio.observe(time.monotonic() - arrived)
        self._metrics.audio_seconds.inc(len(pcm) / 2 / answer.sample_rate)

    async def _health(self, send: Send) -> None:
        status = 503
        if self._healthy():
            with contextlib.suppress(httpx.HTTPError):
                status = (await self._thinker.get("/health")).status_code
        await respond(send, status, b"", [])

    async def _show_metrics(self, send: Send) -> None:
        try:
            theirs = (await self._thinker.get("/metrics")).content
        except httpx.HTTPError:
            theirs = b""
        await respond(send, 200, theirs + self._metrics.text(), [(b"content-type", b"text/plain; version=0.0.4")])

    # -------------------------------------------------------------------------------------------------- what is vLLM's

    async def _pass_on(self, scope: Message, body: bytes, send: Send) -> None:
        try:
            url = self._thinker.base_url.copy_with(raw_path=_target(scope))
        except httpx.InvalidURL as error:
            await _unanswered(send, error)
            return
        headers = _passed_on(scope["headers"], _HOP_BY_HOP | _OF_A_BODY)
        # Not by the client's own method: that one adds headers, and cookies that were another client's.
        request = httpx.Request(scope["method"], url, headers=headers, content=body)
        try:
            response = await self._thinker.send(request, stream=True)
        except httpx.HTTPError as error:
            await _unanswered(send, error)
            return
        try:
            kept = _passed_on(response.headers.raw, _NOT_KEPT)
            await send({"type": "http.response.start", "status": response.status_code, "headers": kept})
            with contextlib.suppress(httpx.HTTPError):  # cut off: the client sees an answer without its end
                async for piece in response.aiter_raw():
                    await _piece(send, piece)
                await _piece(send, b"", last=True)
        finally:
            await response.aclose()


async def _body(receive: Receive) -> bytes | None:
    """The whole body; ``None`` where it is longer than a request may be."""
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise GoneError
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > BODY_MOST:
            return None
        if not message.get("more_body"):
            return b"".join(parts)


async def _while_there(receive: Receive, work: Coroutine[Any, Any, None], answering: Noted) -> None:
    """Do the work for as long as the client is there; a client that goes ends it. Raises :class:`GoneError`.

    A client whose answer is whole is told to have gone as well: what is left of the work then is done.
    """
    working = asyncio.create_task(work)
    watching = asyncio.create_task(_until_gone(receive))
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done() and not answering.ended:
            raise GoneError
        await working
    finally:
        for task in (working, watching):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _passed_on(headers: Headers, left_out: frozenset[str]) -> Headers:
    """What the next one is to see of the headers, as they came: their values may be any bytes.

    Those that ``Connection`` names are for one hop, whatever they are (RFC 9110, 7.6.1).
    """
    lower = [(name.decode("latin-1").lower(), value) for name, value in headers]
    options = [value.decode("latin-1").split(",") for name, value in lower if name == "connection"]
    dropped = left_out | {word.strip().lower() for words in options for word in words}
    return [sent for sent, (name, _) in zip(headers, lower, strict=True) if name not in dropped]


def _target(scope: Message) -> bytes:
    """What the client asked for, as it wrote it; bytes that no address may have are escaped."""
    path: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
    query: bytes = scope["query_string"]
    return quote(path + b"?" * bool(query) + query, safe=_PRINTABLE).encode()


async def _unanswered(send: Send, error: httpx.HTTPError | httpx.InvalidURL) -> str:
    """Tells the client why there is no answer of vLLM's: it cannot be asked this, or is not there. Returns which."""
    if isinstance(error, httpx.InvalidURL | httpx.LocalProtocolError):
        await refuse(send, 400, f"vLLM cannot be asked for this: {error}")
        return "refused"
    await refuse(send, 502, f"stage 0 does not answer: {type(error).__name__}")
    return "failed"


async def _piece(send: Send, body: bytes, *, last: bool = False) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": not last})
