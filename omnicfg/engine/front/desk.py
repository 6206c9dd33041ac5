"""Open speeches: what the front tells the stages of them, and what comes back.

A stage is told of a speech before the Thinker is, so that no row comes for a speech that it does not know. How far
ahead of its client a speech may run is bounded by credit: the Talker stops at a window of frames that have not been
taken, wherever they wait, and nobody else waits with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

_OPEN_S: Final = 60.0
_CAUSE_S: Final = 10.0
"""For how long a stage whose rows nobody takes is not the one to name: the one behind it has most likely just died, and
the front is about to hear how."""


class RefusedError(Exception):
    """The request is one that a stage cannot serve; the message is for the client."""


class UnavailableError(Exception):
    """A stage is not there at present, or was lost; the message is for the client."""


@dataclass(frozen=True, slots=True)
class Audio:
    """Samples of a speech: 16-bit PCM, one channel."""

    pcm: bytes


@dataclass(frozen=True, slots=True)
class AudioEnd:
    """The speech has ended after so many frames."""

    frames: int


@dataclass(frozen=True, slots=True)
class Codes:
    """The speech's frames, for a client that has asked for token ids: ``[frames, codebooks]``."""

    frames: list[list[int]]


@dataclass(frozen=True, slots=True)
class Failure:
    """The speech cannot go on."""

    message: str


@dataclass(eq=False)
class Link:
    """One stage as the desk knows it. ``heard`` is when it last said anything; ``connected`` whether it has rows to
    read.
    """

    stage: int
    name: str
    writer: asyncio.StreamWriter | None = None
    connected: bool = False
    heard: float = 0.0
    facts: dict[str, Any] = field(default_factory=dict)
    beat: dict[str, int] = field(default_factory=dict)

    def tell(self, what: str, key: str, **more: Any) -> None:
        """Say something to the stage; a stage that is not there is not told."""
        if self.writer is not None and not self.writer.is_closing():
            self.writer.write((json.dumps({"do": what, "key": key, **more}) + "\n").encode())

    @property
    def available(self) -> bool:
        """Whether it can take requests."""
        return self.writer is not None and self.connected


@dataclass(eq=False)
class Speech:
    """One speech; ``events`` are what becomes of it, ``samples`` those that its client has taken."""

    key: str
    events: asyncio.Queue[Any]
    waiting: dict[int, asyncio.Future[None]]
    samples: int = 0


class Desk:
    """All open speeches. For one event loop."""

    def __init__(self, links: Sequence[Link]) -> None:
        self.links = links
        self.receiving = False
        self._open: dict[str, Speech] = {}

    @property
    def available(self) -> bool:
        """Whether all stages can take requests, and their audio arrives."""
        return all(map(self.is_up, self.links))

    def is_up(self, link: Link) -> bool:
        """Whether a stage can take requests: of the last one, audio has to arrive as well."""
        return link.available and (self.receiving or link is not self.links[-1])

    def __len__(self) -> int:
        return len(self._open)

    async def open(self, key: str, options: Mapping[str, Any], events: asyncio.Queue[Any]) -> Speech:
        """Announce a speech to every stage. Raises :class:`RefusedError` or :class:`UnavailableError`."""
        if not self.available:
            raise UnavailableError("speech is not available at present: a stage is starting again")
        loop = asyncio.get_running_loop()
        speech = Speech(key, events, {link.stage: loop.create_future() for link in self.links})
        self._open[key] = speech
        try:
            for link in self.links:
                link.tell("open", key, options=options)
            async with asyncio.timeout(_OPEN_S):
                await asyncio.gather(*speech.waiting.values())
        except TimeoutError:
            self.close(key)
            raise UnavailableError("a stage that makes speech does not answer") from None
        except BaseException:
            self.close(key)
            raise
        return speech

    def text(self, key: str, ids: Sequence[int], *, prompt: bool = False, last: bool = False) -> None:
        """Token ids for the first stage behind the Thinker."""
        self.links[0].tell("text", key, ids=list(ids), prompt=prompt, last=last)

    def taken(self, speech: Speech, audio: Audio) -> None:
        """The client has taken this audio: the speech may run on by as much."""
        speech.samples += len(audio.pcm) // 2
        frame = int(self.links[-1].facts["frame_samples"])
        self.links[0].tell("credit", speech.key, frames=-(-speech.samples // frame))

    def close(self, key: str) -> None:
        """Forget a speech, here and in every stage. Idempotent."""
        speech = self._open.pop(key, None)
        if speech is None:
            return
        for future in speech.waiting.values():
            future.cancel()
        for link in self.links:
            link.tell("drop", key)

    # ------------------------------------------------------------------------------------------------- what comes back

    async def follow(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One stage's connection, from its first word to its last."""
        link: Link | None = None
        try:
            while (line := await reader.readline()).endswith(b"\n"):  # the last one of a stage that died may be a part
                message = json.loads(line)
                if link is None:
                    link = next(one for one in self.links if one.stage == message["stage"])
                    link.writer = writer
                link.heard = time.monotonic()
                self._hear(link, message)
        except ConnectionError:
            pass
        finally:
            if link is not None and link.writer is writer:
                link.writer, link.connected = None, False
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    def arrived(self, key: str, pcm: bytes) -> None:
        """Samples of a speech have come."""
        if (speech := self._open.get(key)) is not None:
            speech.events.put_nowait(Audio(pcm))

    def ended(self, key: str, frames: int) -> None:
        """All samples of a speech have come."""
        if (speech := self._open.get(key)) is not None:
            speech.events.put_nowait(AudioEnd(frames))

    def fail(self, key: str, message: str) -> None:
        """One speech cannot go on."""
        if (speech := self._open.get(key)) is None:
            return
        for future in speech.waiting.values():
            if not future.done():
                future.set_exception(UnavailableError(message))
        speech.events.put_nowait(Failure(message))

    def fail_all(self, message: str) -> None:
        """No open speech can go on."""
        for key in list(self._open):
            self.fail(key, message)

    def _hear(self, link: Link, message: Mapping[str, Any]) -> None:
        key = message.get("key", "")
        speech = self._open.get(key)
        match message["event"]:
            case "ready":
                link.facts, link.connected = message["facts"], True
            case "cut":
                link.connected = False
            case "beat":
                link.beat = {name: message[name] for name in ("steps", "frames", "open")}
            case "opened" if speech is not None:
                _settle(speech.waiting[link.stage], None)
            case "refused" if speech is not None:
                _settle(speech.waiting[link.stage], RefusedError(message["message"]))
            case "kept" if speech is not None:
                speech.events.put_nowait(Codes(message["rows"]))
            case "failed":
                self.fail(key, message["message"])
            case "untaken":
                words = f"nobody takes what stage {link.stage} ({link.name}) hands on"
                asyncio.get_running_loop().call_later(_CAUSE_S, self.fail, key, words)


def _settle(future: asyncio.Future[None], error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
