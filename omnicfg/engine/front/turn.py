"""One request that is answered in text and speech: what vLLM and the stages say, as one sequence of events."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import httpx

from omnicfg.engine.front.asgi import JSON, Headers
from omnicfg.engine.front.desk import Audio, AudioEnd, Codes, Desk, Failure, Speech
from omnicfg.engine.spec import request_flag


@dataclass(frozen=True, slots=True)
class Text:
    """A chunk of vLLM's stream."""

    chunk: dict[str, Any]


@dataclass(frozen=True, slots=True)
class TextEnd:
    """vLLM's stream has ended."""


class TurnedAwayError(Exception):
    """vLLM turned the request away: its own status, body and headers, for the client."""

    def __init__(self, status: int, body: bytes, headers: Headers) -> None:
        super().__init__(status)
        self.status, self.body, self.headers = status, body, headers


class Turn:
    """Use as ``async with Turn(...) as turn``, then iterate. However it is left, all stages let go of the request.

    vLLM is asked at the ``path`` at which the client has asked.
    """

    def __init__(
        self, thinker: httpx.AsyncClient, desk: Desk, key: str, path: str, body: Mapping[str, Any], headers: Headers
    ) -> None:
        self._thinker, self._desk, self._key = thinker, desk, key
        self._path, self._headers = path, headers
        self._codes = bool(body.get("return_token_ids"))
        self._body = {
            **body,
            "stream": True,
            "stream_options": {"include_usage": True},
            "return_token_ids": True,
            "kv_transfer_params": request_flag(key),
        }
        self._events: asyncio.Queue[Any] = asyncio.Queue()
        self._speech: Speech | None = None
        self._reading: asyncio.Task[None] | None = None

    async def start(self, options: Mapping[str, Any]) -> Self:
        """Open the speech, then ask vLLM. Raises what :meth:`Desk.open` raises, and :class:`TurnedAwayError`."""
        keep = {"keep": self._desk.links[0].stage} if self._codes else {}
        self._speech = await self._desk.open(self._key, {**options, **keep}, self._events)
        # What is odd about it (an infinite number, half of a character) stays as it came: vLLM says what is wrong.
        content, headers = json.dumps(self._body).encode(), [*self._headers, *JSON]
        url = self._thinker.base_url.join(self._path)
        request = httpx.Request("POST", url, content=content, headers=headers)
        self._response = await self._thinker.send(request, stream=True)
        if self._response.status_code != httpx.codes.OK:
            raise TurnedAwayError(self._response.status_code, await self._response.aread(), self.headers)
        self._reading = asyncio.create_task(self._read())
        return self

    @property
    def headers(self) -> Headers:
        """Those of vLLM's answer."""
        headers: Headers = self._response.headers.raw
        return headers

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._desk.close(self._key)
        if self._reading is not None:
            self._reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reading
        if hasattr(self, "_response"):
            await self._response.aclose()

    async def __aiter__(self) -> AsyncIterator[Text | TextEnd | Audio | AudioEnd | Codes | Failure]:
        """Events until text and audio have ended, or something has failed. Audio that is asked past counts as taken."""
        assert self._speech is not None
        missing = 3 if self._codes else 2
        while missing:
            event = await self._events.get()
            yield event
            if isinstance(event, Audio):
                self._desk.taken(self._speech, event)
            elif isinstance(event, Failure):
                return
            missing -= isinstance(event, TextEnd | AudioEnd | Codes)

    async def _read(self) -> None:
        """vLLM's stream: to the client, and its tokens to the Talker."""
        try:
            async for line in _lines(self._response):
                data = line.removeprefix(b"data: ")
                if data in (line, b"[DONE]"):
                    continue
                chunk = json.loads(data)
                if "error" in chunk:
                    self._events.put_nowait(Failure(f"stage 0 failed: {chunk['error'].get('message', chunk['error'])}"))
                    return
                self._listen(chunk)
                self._events.put_nowait(Text(chunk))
        except Exception as error:  # noqa: BLE001 - cut off, or not what was expected: nobody waits for the rest
            self._events.put_nowait(Failure(f"stage 0 was lost: {type(error).__name__}"))
        else:
            self._events.put_nowait(TextEnd())

    def _listen(self, chunk: Mapping[str, Any]) -> None:
        if chunk.get("prompt_token_ids"):
            self._desk.text(self._key, chunk["prompt_token_ids"], prompt=True)
        for choice in chunk.get("choices", ()):
            ids, last = choice.get("token_ids") or [], choice.get("finish_reason") is not None
            if ids or last:
                self._desk.text(self._key, ids, last=last)


async def _lines(response: httpx.Response) -> AsyncIterator[bytes]:
    """The lines of a stream of events, without their ends.

    httpx ends lines at every character that Unicode has for it; in JSON these stand as they are in a model's text.
    """
    rest = b""
    async for piece in response.aiter_bytes():
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r")
