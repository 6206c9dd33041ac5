"""Pictures, sounds and videos of requests: only from where the plan allows, and no more of them than fits.

vLLM fetches whatever address a request names, unless a list says which hosts may be asked; without a list the bundled
engine gives it one on which nobody stands. That is the lock; :class:`MediaSources`, which vLLM's server loads through
its ``--middleware`` option, says in words what is wrong, where vLLM would answer with a status of 500.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from omnicfg.engine.front.asgi import App, Message, Receive, Send
from omnicfg.engine.front.chat import refuse
from omnicfg.serve.asgi import again, body_of, whole

VARIABLE: Final = "OMNICFG_MEDIA_SOURCES"
NOBODY: Final = "none-is-in-allowed_media_domains.invalid"
"""A host that cannot be (RFC 2606): what vLLM is told where the plan names none."""
_KEYS: Final = ("image_url", "audio_url", "video_url", "source")
_INLINE: Final = "input_audio"
"""Sounds that are in the request itself, without an address."""
_MARKS: Final = (*(key.encode() for key in (*_KEYS, _INLINE)), b"\\u00", b"\0")
"""What a body holds that names media: the words as they are, in escapes, or in an encoding of wider characters."""
_DATA: Final = "data:"
_LONGEST: Final = 8192
"""Characters of an address that is no data itself."""
_SHOWN: Final = 80


@dataclass(frozen=True, slots=True)
class Allowed:
    """What the plan lets vLLM read: ``domains`` are hosts, ``files`` whether it names a directory.

    ``text_alone`` is why no media are taken at all, from wherever; empty where they are.
    """

    domains: tuple[str, ...] = ()
    files: bool = False
    text_alone: str = ""

    @classmethod
    def of(cls, engine_args: Mapping[str, Any], text_alone: str = "") -> Allowed:
        """From the engine args of a plan's first stage."""
        domains = engine_args.get("allowed_media_domains") or ()
        return cls(tuple(map(str, domains)), bool(engine_args.get("allowed_local_media_path")), text_alone)

    def engine_args(self) -> dict[str, Any]:
        """What vLLM has to be told beside what the plan says."""
        return {} if self.domains else {"allowed_media_domains": [NOBODY]}

    def environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """For the server: what is allowed, and that a host on the list does not send it to another one."""
        redirects = "VLLM_MEDIA_URL_ALLOW_REDIRECTS"
        return {VARIABLE: json.dumps(asdict(self)), **({} if redirects in inherited else {redirects: "0"})}

    def objection(self, address: str) -> str | None:
        """Why media are not read from there; ``None`` where they are.

        ``urlsplit`` keeps the last 128 addresses that it was given: pictures themselves, and texts as long, are not.
        """
        if address[: len(_DATA)].lower() == _DATA:
            return None
        if len(address) > _LONGEST:
            return f"it has more than {_LONGEST} characters"
        return self._objection(address)

    def _objection(self, address: str) -> str | None:
        try:
            parts = urlsplit(address)
            scheme, host = parts.scheme.lower(), parts.hostname
        except ValueError:
            return "it is no address"
        if scheme == "data":
            return None
        if scheme in {"http", "https"}:
            if host in self.domains:
                return None
            hosts = ", ".join(self.domains) or "none"
            return f"of remote hosts, {hosts} may be asked here (the stage's allowed_media_domains)"
        if scheme == "file":
            return None if self.files else "no files are read here (the stage has no allowed_local_media_path)"
        return "it is neither a data: URL nor another address that media are read from"


class MediaSources:
    """ASGI middleware."""

    def __init__(self, app: App, allowed: Allowed | None = None) -> None:
        self.app = app
        self.allowed = Allowed(**json.loads(os.environ.get(VARIABLE, "{}"))) if allowed is None else allowed

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self.app(scope, receive, send)
            return
        messages = await whole(receive, send)
        if messages is None:
            return
        if (wrong := self._wrong(body_of(messages))) is not None:
            await refuse(send, 400, wrong, "messages")
        else:
            await self.app(scope, again(messages, receive), send)

    def _wrong(self, body: bytes) -> str | None:
        if not any(mark in body for mark in _MARKS):
            return None
        try:
            request = json.loads(body)
        except (ValueError, RecursionError):
            return None  # vLLM says what is wrong with it
        for address in _addresses(request):
            if self.allowed.text_alone:
                return f"messages: this server takes text alone: {self.allowed.text_alone}"
            if (objection := self.allowed.objection(address)) is not None:
                shown = address if len(address) <= _SHOWN else f"{address[:_SHOWN]}…"
                return f"messages: {shown!r} is not read: {objection}; send the data itself, as a data: URL"
        return None


def _addresses(value: Any) -> Iterator[str]:
    """Every address of media in a request, however deep it lies; of media that come without one, an empty data: URL."""
    open_values = [value]
    while open_values:
        one = open_values.pop()
        if isinstance(one, Mapping):
            if isinstance(one.get(_INLINE), Mapping):
                yield "data:"
            for key in _KEYS:
                named = one.get(key)
                address = named.get("url") if isinstance(named, Mapping) else named
                if isinstance(address, str) and (key != "source" or isinstance(named, Mapping)):
                    yield address
            open_values += one.values()
        elif isinstance(one, Sequence) and not isinstance(one, str):
            open_values += one
