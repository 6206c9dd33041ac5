"""OpenAI's shape of a chat with audio: what a request asks for, and what is answered from a turn's events."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from omnicfg.engine.front.asgi import JSON, Message, Send, respond
from omnicfg.engine.front.formats import FormatError, check, packed, stream_head

CHATS: Final = frozenset({"/v1/chat/completions", "/v1/chat/completions/batch", "/invocations"})
"""Where vLLM's server answers chats, as OpenAI has them: the last one is SageMaker's, and takes prompts as well."""
_OURS: Final = ("modalities", "audio", "voice")
_PARTS: Final = ("text", "refusal", "image_url", "input_audio", "audio_url", "video_url")
"""What a message's content may consist of: media that vLLM's own processors turn into tokens."""
OUTLASTS: Final = "the server is stopping, and this answer took longer than it waits"
"""What is told of a request that is not done when the time after a stop signal is over."""
BODY_MOST: Final = 128 * 2**20
"""Bytes that a request may have: it is held in memory, and media in it are there twice."""
_DEFAULT_FORMAT: Final = {False: "wav", True: "pcm16"}
_SWITCHES: Final = ("stream", "return_token_ids")
"""What vLLM reads of a request and is told by the front: whether it makes sense is not vLLM's to say any more."""


class BadRequestError(ValueError):
    """A request that is not served; ``parameter`` is the field that it is about."""

    def __init__(self, message: str, parameter: str | None = None) -> None:
        super().__init__(message)
        self.parameter = parameter


@dataclass(frozen=True, slots=True)
class Wish:
    """What a request asks for beside what vLLM reads: ``body`` is what vLLM gets."""

    body: Mapping[str, Any]
    text: bool
    streamed: bool
    usage: bool
    token_ids: bool
    voice: str
    format: str
    seed: int | None


def may_be_chat(scope: Message) -> bool:
    """Whether a request has come for where chats are answered."""
    return scope["type"] == "http" and scope["method"] == "POST" and scope["path"] in CHATS


def spoken(body: bytes) -> Mapping[str, Any] | None:
    """A chat with audio; ``None`` for everything else. Whatever is wrong with a request, vLLM says so."""
    try:
        chat = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return chat if _asks_for_audio(chat) and "messages" in chat else None


def _asks_for_audio(body: object) -> bool:
    return isinstance(body, dict) and isinstance(body.get("modalities"), list) and "audio" in body["modalities"]


def wish_of(body: Mapping[str, Any], voices: Sequence[str], default_voice: str) -> Wish:
    """What the request asks for. Raises :class:`BadRequestError`.

    Where a word belongs there may be anything, lists and objects too, which no set could be asked for.
    """
    modalities = body["modalities"]
    if unknown := [name for name in modalities if name not in ("text", "audio")]:
        raise BadRequestError(f"modalities: {unknown[0]!r} is neither text nor audio", "modalities")
    audio = body.get("audio") or {}
    if not isinstance(audio, dict):
        raise BadRequestError("audio is no object", "audio")
    for name in _SWITCHES:
        if body.get(name) not in (None, True, False):
            raise BadRequestError(f"{name}: {body[name]!r} is neither true nor false", name)
    if body.get("n") not in (None, 1):
        raise BadRequestError("n: speech is made for one answer", "n")
    if body.get("tools") and body.get("tool_choice") != "none":
        raise BadRequestError("tools: calls of tools are not spoken; ask for text only", "tools")
    _check_messages(body.get("messages"))
    _check_processing(body)
    streamed = bool(body.get("stream"))
    try:
        name = check(audio.get("format", _DEFAULT_FORMAT[streamed]), streamed=streamed)
    except FormatError as error:
        raise BadRequestError(str(error), "audio.format") from None
    seed = body.get("seed")
    options = body.get("stream_options")
    return Wish(
        {name: value for name, value in body.items() if name not in _OURS},
        text="text" in modalities,
        streamed=streamed,
        usage=isinstance(options, dict) and bool(options.get("include_usage")),
        token_ids=bool(body.get("return_token_ids")),
        voice=_voice(audio.get("voice", body.get("voice", default_voice)), voices),
        format=name,
        seed=seed if isinstance(seed, int) else None,
    )


def _voice(voice: object, voices: Sequence[str]) -> str:
    name = voice.get("id") if isinstance(voice, dict) else voice
    if not isinstance(name, str) or name.lower() not in {one.lower() for one in voices}:
        raise BadRequestError(f"audio.voice is {name!r}; this model has {', '.join(voices)}", "audio.voice")
    return name


def _check_messages(messages: object) -> None:
    for message in messages if isinstance(messages, list) else ():
        if isinstance(message, list):
            raise BadRequestError("messages: speech is made for one chat a request, and these are several", "messages")
        if not isinstance(message, dict):
            continue
        if message.get("role") == "assistant" and message.get("audio"):
            raise BadRequestError(
                "messages: audio answers are not kept here; send the answer's transcript as content", "messages"
            )
        parts = message.get("content")
        for part in parts if isinstance(parts, list) else ():
            kind = part.get("type") if isinstance(part, dict) else None
            if kind not in _PARTS:
                raise BadRequestError(
                    f"messages: {kind} together with an answer in speech is not served; "
                    f"there are {', '.join(sorted(_PARTS))}",
                    "messages",
                )


def _check_processing(body: Mapping[str, Any]) -> None:
    """A video's own sound is woven into its frames: where those tokens stand, a Talker is not told."""
    for name in ("mm_processor_kwargs", "chat_template_kwargs"):
        options = body.get(name)
        if isinstance(options, dict) and options.get("use_audio_in_video"):
            raise BadRequestError(
                f"{name}.use_audio_in_video together with an answer in speech is not served; "
                "send the sound as a part of its own, or ask for text only",
                name,
            )


@dataclass(slots=True)
class Answer:
    """An answer as it grows. ``frames`` are the Talker's tokens: they count as audio tokens."""

    wish: Wish
    sample_rate: int
    audio_id: str = field(default_factory=lambda: f"audio_{uuid.uuid4().hex}")
    head: dict[str, Any] = field(default_factory=dict)
    choice: dict[str, Any] = field(default_factory=dict)
    parts: list[str] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[Any] = field(default_factory=list)
    usage: dict[str, Any] = field(default_factory=dict)
    pcm: list[bytes] = field(default_factory=list)
    frames: int = 0
    codes: list[list[int]] = field(default_factory=list)
    sounded: bool = False

    # ------------------------------------------------------------------------------------------------- all at once

    def add_text(self, chunk: Mapping[str, Any]) -> None:
        """Take a chunk of vLLM's stream in."""
        self.head = {**self.head, **{name: value for name, value in chunk.items() if name not in {"choices", "usage"}}}
        self.usage = chunk.get("usage") or self.usage
        for choice in chunk.get("choices", ()):
            self.parts.append(choice["delta"].get("content") or "")
            self.token_ids += choice.get("token_ids") or []
            self.logprobs += (choice.get("logprobs") or {}).get("content") or []
            for name in ("finish_reason", "stop_reason"):
                if choice.get(name) is not None:
                    self.choice[name] = choice[name]

    def whole(self) -> dict[str, Any]:
        """The ``chat.completion``."""
        transcript = "".join(self.parts)
        audio: dict[str, Any] = {
            "id": self.audio_id,
            "data": _text(packed(b"".join(self.pcm), self.wish.format, self.sample_rate)),
            "transcript": transcript,
            "expires_at": self.head.get("created", 0),  # audio is not kept: it is here, and nowhere else
        }
        message = {"role": "assistant", "content": transcript if self.wish.text else None, "audio": audio}
        choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": None, **self.choice}
        choice["logprobs"] = {"content": self.logprobs} if self.logprobs else None
        head = self._without_ids(self.head)
        if self.wish.token_ids:
            choice["token_ids"] = self.token_ids
            audio["token_ids"] = self.codes
        return {**head, "object": "chat.completion", "choices": [choice], "usage": self._usage()}

    # ---------------------------------------------------------------------------------------------------- streamed

    def text_event(self, chunk: Mapping[str, Any]) -> dict[str, Any] | None:
        """A chunk of vLLM's stream as the client gets it; ``None`` where there is nothing in it for the client."""
        self.head = {**self.head, **{name: value for name, value in chunk.items() if name not in {"choices", "usage"}}}
        self.usage = chunk.get("usage") or self.usage
        if not chunk.get("choices"):
            return None  # the usage, which comes when the audio has ended
        choices = []
        for choice in chunk["choices"]:
            content = choice["delta"].get("content")
            delta = {name: value for name, value in choice["delta"].items() if self.wish.text or name != "content"}
            if content:
                delta["audio"] = {"id": self.audio_id, "transcript": content}
            self._keep_end(choice)
            shown = {**choice, "delta": delta, "finish_reason": None}
            shown.pop("stop_reason", None)
            choices.append(shown if self.wish.token_ids else _without(shown, "token_ids"))
        return {**self._without_ids(chunk), "choices": choices}

    def audio_event(self, pcm: bytes) -> dict[str, Any]:
        """Samples as the client gets them."""
        head = b"" if self.sounded else stream_head(self.wish.format, self.sample_rate)
        self.sounded = True
        return self._event({"audio": {"id": self.audio_id, "data": _text(head + pcm)}})

    def end_events(self) -> list[dict[str, Any]]:
        """What is said when text and audio have ended."""
        codes = {"token_ids": self.codes} if self.wish.token_ids else {}
        end = self._event({"audio": {"id": self.audio_id, "expires_at": self.head.get("created", 0), **codes}})
        end["choices"][0] |= self.choice
        return [end, {**self._chunk_head(), "choices": [], "usage": self._usage()}] if self.wish.usage else [end]

    def _event(self, delta: Mapping[str, Any]) -> dict[str, Any]:
        choice: dict[str, Any] = {"index": 0, "delta": dict(delta), "logprobs": None, "finish_reason": None}
        return {**self._chunk_head(), "choices": [choice]}

    def _chunk_head(self) -> dict[str, Any]:
        return {**_without(self.head, "prompt_token_ids"), "object": "chat.completion.chunk"}

    def _keep_end(self, choice: Mapping[str, Any]) -> None:
        """The text's end is told with the audio's: an answer ends once."""
        for name in ("finish_reason", "stop_reason"):
            if choice.get(name) is not None:
                self.choice[name] = choice[name]

    def _without_ids(self, head: Mapping[str, Any]) -> dict[str, Any]:
        return dict(head) if self.wish.token_ids else _without(head, "prompt_token_ids")

    def _usage(self) -> dict[str, Any]:
        """Tokens by modality, as OpenAI's fields have them: of what is said, a frame of codes is one."""
        prompt, text = self.usage.get("prompt_tokens", 0), self.usage.get("completion_tokens", 0)
        told = self.usage.get("prompt_tokens_details") or {}
        media = told.get("multimodal_tokens") or {}
        by_modality = {f"{name}_tokens": media.get(name, 0) for name in ("audio", "image")}
        return {
            **self.usage,
            "prompt_tokens_details": {**told, "text_tokens": prompt - sum(media.values()), **by_modality},
            "completion_tokens": text + self.frames,
            "total_tokens": prompt + text + self.frames,
            "completion_tokens_details": {"text_tokens": text, "audio_tokens": self.frames},
        }


def error_body(message: str, status: int, parameter: str | None = None) -> dict[str, Any]:
    """An error in the shape that vLLM's server gives it."""
    kind = "BadRequestError" if status < 500 else "InternalServerError"
    return {"error": {"message": message, "type": kind, "param": parameter, "code": status}}


async def refuse(send: Send, status: int, message: str, parameter: str | None = None) -> None:
    """Answer with OpenAI's form of an error."""
    await respond(send, status, json.dumps(error_body(message, status, parameter)).encode(), JSON)


def body_too_long() -> str:
    """What is told of a request with more than :data:`BODY_MOST` bytes."""
    return f"the request has more than {BODY_MOST // 2**20} MiB; send smaller pictures or shorter sounds"


def sse(event: Mapping[str, Any]) -> bytes:
    """One server-sent event."""
    return f"data: {json.dumps(event, ensure_ascii=False)}\n\n".encode()


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _without(mapping: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in mapping.items() if key != name}
