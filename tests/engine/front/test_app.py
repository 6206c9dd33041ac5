"""The front before a vLLM and two stages that only pretend: protocol, credit, and what happens when one is lost."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

httpx = pytest.importorskip("httpx", reason="comes with the extra cpu or cuda")
pytest.importorskip("prometheus_client", reason="comes with the extra cpu or cuda")

from omnicfg.engine.front import app, chat, desk  # noqa: E402
from omnicfg.engine.front.app import Front  # noqa: E402
from omnicfg.engine.front.desk import Desk, Link  # noqa: E402
from omnicfg.engine.front.metrics import Metrics  # noqa: E402
from tests.patience import PATIENCE_S, until_so  # noqa: E402

Message = MutableMapping[str, Any]
FRAME = 4
ASKED = {
    "model": "m",
    "messages": [{"role": "user", "content": "hi"}],
    "modalities": ["text", "audio"],
    "audio": {"voice": "ethan", "format": "pcm16"},
}


class Stage:
    """What a worker would say: opens everything but `mute`, and notes what it is told."""

    def __init__(self, number: int, control: Path) -> None:
        self.number, self.control = number, control
        self.told: list[dict[str, Any]] = []
        self.opens = True

    async def connect(self) -> None:
        self.reader, self.writer = await asyncio.open_unix_connection(self.control)
        self.say("ready", facts={"sample_rate": 24000, "frame_samples": FRAME})
        self.listening = asyncio.create_task(self._listen())

    def say(self, event: str, **more: Any) -> None:
        self.writer.write((json.dumps({"event": event, "stage": self.number, **more}) + "\n").encode())

    async def _listen(self) -> None:
        while line := await self.reader.readline():
            message = json.loads(line)
            self.told.append(message)
            if message["do"] == "open" and self.opens:
                self.say("opened", key=message["key"])

    def heard(self, what: str) -> list[dict[str, Any]]:
        return [message for message in self.told if message["do"] == what]

    async def close(self) -> None:
        self.listening.cancel()
        self.writer.close()


class Rig:
    def __init__(self, folder: Path) -> None:
        self.desk = Desk([Link(1, "talker"), Link(2, "code2wav")])
        self.talker, self.code2wav = Stage(1, folder / "control"), Stage(2, folder / "control")
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.asked: list[dict[str, Any]] = []
        self.targets: list[bytes] = []
        self.status = 200
        self.headers: list[tuple[str, str]] = []
        self.breaks = False
        self.refuses: Exception | None = None

    async def vllm(self, request: Any) -> Any:
        """vLLM: two tokens, a third when it may go on."""
        self.targets.append(request.url.raw_path)
        self.seen = request.headers.raw
        if self.refuses is not None:
            raise self.refuses
        if request.url.path not in ("/v1/chat/completions", "/invocations") or b'"payload"' not in request.content:
            return httpx.Response(418, content=_pieces(b"vLLM's: ", request.content), headers=self.headers)
        self.raw = request.content
        self.asked.append({**json.loads(request.content), "headers": dict(request.headers)})
        if self.status != 200:
            return httpx.Response(self.status, json={"error": {"message": "vLLM says no"}}, headers=self.headers)
        return httpx.Response(200, content=self._chunks(), headers=self.headers)

    async def _chunks(self) -> AsyncIterator[bytes]:
        head = {"id": "c", "object": "chat.completion.chunk", "created": 7, "model": "m"}
        yield _sse(
            {
                **head,
                "prompt_token_ids": [1, 2],
                "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}],
            }
        )
        for text, token in (("Hel", 3), ("lo", 4)):
            yield _sse(
                {
                    **head,
                    "choices": [{"index": 0, "delta": {"content": text}, "token_ids": [token], "finish_reason": None}],
                }
            )
        await self.go_on.wait()
        if self.breaks:
            yield _sse({"error": {"message": "EngineCore encountered an issue."}})
            return
        yield _sse(
            {**head, "choices": [{"index": 0, "delta": {"content": "!"}, "token_ids": [5], "finish_reason": "stop"}]}
        )
        yield _sse({**head, "choices": [], "usage": {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5}})
        yield b"data: [DONE]\n\n"

    async def speak(self, frames: int = 2) -> str:
        """The audio of the one open request, as the last stage would hand it on."""
        key = await self.key()
        for number in range(frames):
            self.desk.arrived(key, bytes([number, 0]) * FRAME)
        self.desk.ended(key, frames)
        return key

    async def key(self) -> str:
        await until_so(lambda: self.talker.heard("text"))
        return str(self.talker.heard("open")[-1]["key"])


async def _pieces(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


def _sse(event: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(event)}\n\n".encode()


@asynccontextmanager
async def rigged(folder: Path) -> AsyncIterator[tuple[Rig, Any]]:
    rig = Rig(folder)
    control = await asyncio.start_unix_server(rig.desk.follow, folder / "control")
    for stage in (rig.talker, rig.code2wav):
        await stage.connect()
    await until_so(lambda: all(link.available for link in rig.desk.links))
    rig.desk.receiving = True
    async with httpx.AsyncClient(transport=httpx.MockTransport(rig.vllm), base_url="http://thinker") as thinker:
        front = Front(
            thinker,
            rig.desk,
            Metrics(rig.desk),
            voices=("chelsie", "ethan"),
            default_voice="ethan",
            healthy=lambda: rig.desk.available,
        )
        yield rig, front
    for stage in (rig.talker, rig.code2wav):
        await stage.close()
    control.close()


async def call(front: Any, body: Any = None, path: str = "/v1/chat/completions", **more: Any) -> tuple[int, bytes]:
    """Status and body of an answer; nothing where the client has gone before there was one."""
    sent = await answer_of(front, body, path, **more)
    return (sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])) if sent else (0, b"")


async def answer_of(
    front: Any,
    body: Any = None,
    path: str = "/v1/chat/completions",
    headers: Any = (),
    gone: asyncio.Event | None = None,
    method: str | None = None,
    target: tuple[bytes, bytes] | None = None,
    sent: list[Message] | None = None,
) -> list[Message]:
    """What is sent; ``gone`` is when the client goes, ``target`` path and query as it wrote them.

    As with uvicorn, a client whose answer is whole is one that has gone.
    """
    raw = body if isinstance(body, bytes) else json.dumps(body).encode() if body is not None else b""
    coming = [{"type": "http.request", "body": raw, "more_body": False}]
    sent = [] if sent is None else sent
    gone = gone or asyncio.Event()

    async def receive() -> Message:
        if coming:
            return coming.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)
        if message["type"] == "http.response.body" and not message.get("more_body"):
            gone.set()

    scope = {
        "type": "http",
        "method": method or ("GET" if body is None else "POST"),
        "path": path,
        "raw_path": target[0] if target else path.encode(),
        "query_string": target[1] if target else b"a=1",
        "headers": list(headers),
    }
    async with asyncio.timeout(PATIENCE_S):
        await front(scope, receive, send)
    return sent


def events(body: bytes) -> list[dict[str, Any]]:
    lines = [line.removeprefix("data: ") for line in body.decode().split("\n\n") if line]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def run(test: Callable[[Rig, Any], Awaitable[None]], folder: Path, **more: Any) -> None:
    async def go() -> None:
        async with rigged(folder, **more) as (rig, front):
            await test(rig, front)

    asyncio.run(go())


def test_an_answer_has_text_audio_and_the_tokens_of_both(tmp_path: Path) -> None:
    async def test(rig: Rig, front: Any) -> None:
        asking = asyncio.create_task(call(front, {**ASKED, "seed": 5}))
        await rig.speak()
        status, body = await asking
        answer = json.loads(body)
        [choice] = answer["choices"]
        audio = choice["message"]["audio"]
        assert status == 200
        assert choice["message"]["content"] == audio["transcript"] == "Hello!"
        assert base64.b64decode(audio["data"]) == b"\0\0" * FRAME + b"\1\0" * FRAME
        assert audio["expires_at"] == 7
        assert choice["finish_reason"] == "stop"
        assert answer["usage"] == {
            "prompt_tokens": 2,
            "completion_tokens": 5,
            "total_tokens": 7,
            "completion_tokens_details": {"text_tokens": 3, "audio_tokens": 2},
            "prompt_tokens_details": {"text_tokens": 2, "audio_tokens": 0, "image_tokens": 0},
        }
        assert "prompt_token_ids" not in answer
        assert rig.talker.heard("open")[0]["options"] == {"voice": "ethan", "seed": 5}
        assert not {"modalities", "audio"} & set(rig.asked[0]), "vLLM is asked for text"

    run(test, tmp_path)


def test_a_chat_is_spoken_wherever_vllm_answers_one(tmp_path: Path) -> None:
    """SageMaker asks at a path of its own, where vLLM reads headers that it reads nowhere else."""

    async def test(rig: Rig, front: Any) -> None:
        asking = asyncio.create_task(call(front, ASKED, "/invocations"))
        await rig.speak()
        status, body = await asking
        assert (status, rig.targets) == (200, [b"/invocations"])
        audio = json.loads(body)["choices"][0]["message"]["audio"]
        assert base64.b64decode(audio["data"]) == b"\0\0" * FRAME + b"\1\0" * FRAME

    run(test, tmp_path)


def test_several_chats_in_one_request_are_not_spoken_and_told_so(tmp_path: Path) -> None:
    async def test(rig: Rig, front: Any) -> None:
        batch = {**ASKED, "messages": [ASKED["messages"], ASKED["messages"]]}
        status, body = await call(front, batch, "/v1/chat/completions/batch")
        error = json.loads(body)["error"]
        assert (status, error["param"]) == (400, "messages")
        assert "one chat a request" in error["message"]
        assert not rig.targets
        assert not rig.talker.told

    run(test, tmp_path)


def test_the_talker_is_told_of_every_token_as_it_comes(tmp_path: Path) -> None:
    async def test(rig: Rig, front: Any) -> None:
        rig.go_on.clear()
        asking = asyncio.create_task(call(front, ASKED))
        await until_so(lambda: len(rig.talker.heard("text")) >= 3)
        told = [(one["ids"], one["prompt"], one["last"]) for one in rig.talker.heard("text")]
        assert told == [([1, 2], True, False), ([3], False, False), ([4], False, False)]
        rig.go_on.set()
        await rig.speak()
        await asking
        last = rig.talker.heard("text")[-1]
        assert (last["ids"], last["last"]) == ([5], True)
        assert rig.code2wav.heard("text") == []

    run(test, tmp_path)


def test_a_stream_has_audio_before_the_text_has_ended(tmp_path: Path) -> None:
    async def test(rig: Rig, front: Any) -> None:
        rig.go_on.clear()
        asking = asyncio.create_task(call(front, {**ASKED, "stream": True, "stream_options": {"include_usage": True}}))
        key = await rig.key()
        rig.desk.arrived(key, b"\1\0" * FRAME)
        await until_so(lambda: rig.talker.heard("credit"))
        rig.go_on.set()
        await until_so(lambda: rig.talker.heard("text")[-1]["last"])
        rig.desk.ended(key, 1)
        _, body = await asking
        *deltas, end, usage = events(body)
        shown = [choice["delta"] for event in deltas for choice in event["choices"]]
        kinds = ["audio" if delta.get("audio", {}).get("data") else delta.get("content") for delta in shown]
        assert kinds.index("audio") < kinds.index("!")
        assert [end["choices"][0]["finish_reason"]] == ["stop"]
        assert all(event["choices"][0]["finish_reason"] is None for event in deltas)
        assert usage["usage"]["completion_tokens_details"] == {"text_tokens": 3, "audio_tokens": 1}

    run(test, tmp_path)


def test_credit_is_given_for_what_the_client_has_taken(tmp_path: Path) -> None:
    async def test(rig: Rig, front: Any) -> None:
        asking = asyncio.create_task(call(front, {**ASKED, "stream": True}))
        await rig.speak(3)
        await asking
        await until_so(lambda: rig.talker.heard("drop"))  # told after all credit
        assert [one["frames"] for one in rig.talker.heard("credit")] == [1, 2, 3]

    run(test, tmp_path)


def test_codes_are_for_those_who_ask_for_token_ids(tmp_path: Path) -> None:
    async def test(rig: Rig, front: Any) -> None:
        asking = asyncio.create_task(call(front, {**ASKED, "return_token_ids": True}))
        key = await rig.speak()
        rig.talker.say("kept", key=key, rows=[[1, 2], [3, 4]])
        answer = json.loads((await asking)[1])
        assert answer["choices"][0]["message"]["audio"]["token_ids"] == [[1, 2], [3, 4]]
        assert answer["choices"][0]["token_ids"] == [3, 4, 5]
        assert answer["prompt_token_ids"] == [1, 2]
        assert rig.talker.heard("open")[0]["options"]["keep"] == 1

    run(test, tmp_path)


def test_however_a_request_ends_every_stage_lets_go(tmp_path: Path) -> None:
    async def test(rig: Rig, front: Any) -> None:
        gone = asyncio.Event()
        rig.go_on.clear()
        asking = asyncio.create_task(call(front, ASKED, gone=gone))
        key = await rig.key()
        gone.set()
        assert await asking == (0, b"")
        await until_so(lambda: rig.talker.heard("drop") and rig.code2wav.heard("drop"))
        assert [one["key"] for one in rig.talker.heard("drop")] == [key]
        assert [one["key"] for one in rig.code2wav.heard("drop")] == [key]
        assert len(rig.desk) == 0

    run(test, tmp_path)


@pytest.mark.parametrize("stream", [True, False])
def test_a_line_of_vllms_ends_where_it_says_so(stream: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unicode has other ends of lines, which a model may well say; JSON leaves them as they are."""
    said = "a\u2028b\u2029c\x85d"

    async def chunks(rig: Rig) -> AsyncIterator[bytes]:
        delta = {"index": 0, "delta": {"content": said}, "token_ids": [3], "finish_reason": "stop"}
        whole = (
            f"data: {json.dumps({'id': 'c', 'choices': [delta]}, ensure_ascii=False)}\r\n\r\ndata: [DONE]\n\n".encode()
        )
        for start in range(0, len(whole), 7):  # as the network has it: in the middle of characters too
            yield whole[start : start + 7]

    async def test(rig: Rig, front: Any) -> None:
        asking = asyncio.create_task(call(front, {**ASKED, "stream": stream}))
        await rig.speak()
        status, body = await asking
        shown = events(body)[0] if stream else json.loads(body)
        assert (status, said in json.dumps(shown, ensure_ascii=False).replace("\\x85", "\x85")) == (200, True)

    monkeypatch.setattr(Rig, "_chunks", chunks)
    run(test, tmp_path)


@pytest.mark.parametrize("piece", [b'data: {"id": \n\n', b"data: 7\n\n", b'data: {"error": "x"}\n\n'])
def test_an_event_that_cannot_be_read_ends_the_request(
    piece: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(rig: Rig, front: Any) -> None:
        status, body = await call(front, ASKED)
        assert (status, "stage 0 was lost" in json.loads(body)["error"]["message"]) == (500, True)

    monkeypatch.setattr(Rig, "_chunks", lambda rig: _pieces(piece))
    run(test, tmp_path)


def test_an_error_of_vllm_in_the_middle_of_an_answer_names_its_stage(tmp_path: Path) -> None:
    async def test(rig: Rig, front: Any) -> None:
        rig.breaks = True
        status, body = await call(front, ASKED)
        assert status == 500
        assert json.loads(body)["error"]["message"] == "stage 0 failed: EngineCore encountered an issue."
        assert len(rig.desk) == 0

    run(test, tmp_path)


@pytest.mark.parametrize("stream", [False, True])
def test_a_stage_that_fails_a_request_is_told_of(stream: bool, tmp_path: Path) -> None:
    async def test(rig: Rig, front: Any) -> None:
        asking = asyncio.create_task(call(front, {**ASKED, "stream": stream}))
        rig.talker.say("failed", key=await rig.key(), message="stage 1 ran out of memory")
        status, body = await asking
        error = events(body)[-1] if stream else json.loads(body)
        assert status == (200 if stream else 500)
        assert error["error"]["message"] == "stage 1 ran out of memory"
        assert len(rig.desk) == 0

    run(test, tmp_path)


def test_of_a_stage_that_died_its_death_is_told_and_not_that_nobody_took_the_rows(tmp_path: Path) -> None:
    async def test(rig: Rig, front: Any) -> None:
        asking = asyncio.create_task(call(front, ASKED))
        rig.talker.say("untaken", key=await rig.key())
        rig.talker.say("beat", steps=1, frames=1, open=1)
        await until_so(lambda: rig.desk.links[0].beat)
        rig.desk.fail_all("stage 2 (code2wav) died (status -9)")
        status, body = await asking
        assert (status, json.loads(body)["error"]["message"]) == (500, "stage 2 (code2wav) died (status -9)")

    run(test, tmp_path)


def test_a_stage_that_dies_in_the_middle_of_a_word_is_away(tmp_path: Path) -> None:
    async def test(rig: Rig, front: Any) -> None:
        troubles: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, trouble: troubles.append(trouble))
        rig.talker.writer.write(b'{"event": "beat", "sta')
        await rig.talker.close()
        await until_so(lambda: not rig.desk.available)
        assert [rig.desk.links[0].writer, troubles] == [None, []]

    run(test, tmp_path)


def test_rows_that_nobody_takes_fail_a_request_in_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig, front: Any) -> None:
        asking = asyncio.create_task(call(front, ASKED))
        rig.talker.say("untaken", key=await rig.key())
        status, body = await asking
        message = "nobody takes what stage 1 (talker) hands on"
        assert (status, json.loads(body)["error"]["message"]) == (500, message)
        assert len(rig.desk) == 0

    monkeypatch.setattr(desk, "_CAUSE_S", 0.05)
    run(test, tmp_path)


def test_while_a_stage_is_away_speech_is_refused_and_text_is_not(tmp_path: Path) -> None:
    async def test(rig: Rig, front: Any) -> None:
        await rig.code2wav.close()
        await until_so(lambda: not rig.desk.available)
        assert (await call(front, ASKED))[0] == 503
        assert (await call(front, path="/health"))[0] == 503
        assert (await call(front, {**ASKED, "modalities": ["text"]}))[0] == 418

    run(test, tmp_path)


def test_the_last_stage_is_up_when_its_audio_arrives(tmp_path: Path) -> None:
    async def test(rig: Rig, front: Any) -> None:
        rig.desk.receiving = False
        assert (await call(front, path="/health"))[0] == 503
        text = (await call(front, path="/metrics"))[1].decode()
        assert 'omnicfg:stage_up{stage="talker"} 1.0' in text
        assert 'omnicfg:stage_up{stage="code2wav"} 0.0' in text

    run(test, tmp_path)


def test_a_voice_that_a_stage_refuses_is_a_bad_request(tmp_path: Path) -> None:
    async def test(rig: Rig, front: Any) -> None:
        rig.talker.opens = False
        asking = asyncio.create_task(call(front, ASKED))
        await until_so(lambda: rig.talker.heard("open"))
        rig.talker.say("refused", key=rig.talker.heard("open")[0]["key"], message="no such voice")
        status, body = await asking
        assert (status, json.loads(body)["error"]["message"]) == (400, "no such voice")
        assert rig.asked == [], "vLLM is not asked"

    run(test, tmp_path)


def test_what_vllm_refuses_is_refused_in_its_words(tmp_path: Path) -> None:
    async def test(rig: Rig, front: Any) -> None:
        rig.status = 404
        assert await call(front, ASKED) == (404, b'{"error":{"message":"vLLM says no"}}')
        await until_so(lambda: rig.talker.heard("drop") and rig.code2wav.heard("drop"))
        assert len(rig.talker.heard("drop")) == len(rig.code2wav.heard("drop")) == 1

    run(test, tmp_path)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"modalities": ["audio", "smell"]}, "'smell' is neither"),
        ({"audio": "loud"}, "audio is no object"),
        ({"audio": {"voice": "x", "format": "wav"}}, "this model has chelsie, ethan"),
        ({"audio": {"voice": "ethan", "format": "x"}}, "there are wav"),
        ({"n": 3}, "one answer"),
        ({"tools": [{}]}, "not spoken"),
        ({"messages": [{"role": "assistant", "audio": {"id": "a"}}]}, "send the answer's transcript"),
        ({"messages": [{"role": "user", "content": [{"type": "image_embeds"}]}]}, "image_embeds together"),
        ({"mm_processor_kwargs": {"use_audio_in_video": True}}, "send the sound as a part of its own"),
    ],
)
def test_what_is_not_served_is_told_before_anything_is_asked(wrong: dict[str, Any], told: str, tmp_path: Path) -> None:
    async def test(rig: Rig, front: Any) -> None:
        status, body = await call(front, {**ASKED, **wrong})
        assert status == 400
        assert told in json.loads(body)["error"]["message"]
        assert rig.talker.told == rig.asked == []

    run(test, tmp_path)


@pytest.mark.parametrize(
    ("wrong", "parameter"),
    [
        ({"modalities": ["audio", {}]}, "modalities"),
        ({"n": []}, "n"),
        ({"messages": [{"role": "user", "content": [{"type": []}]}]}, "messages"),
        ({"audio": {"voice": {"id": []}, "format": "pcm16"}}, "audio.voice"),
        ({"audio": {"format": {}}}, "audio.format"),
        ({"stream": "false"}, "stream"),
        ({"return_token_ids": []}, "return_token_ids"),
    ],
)
def test_lists_and_objects_in_the_place_of_words_are_a_bad_request(
    wrong: dict[str, Any], parameter: str, tmp_path: Path
) -> None:
    async def test(rig: Rig, front: Any) -> None:
        status, body = await call(front, {**ASKED, **wrong})
        assert (status, json.loads(body)["error"]["param"]) == (400, parameter)

    run(test, tmp_path)


@pytest.mark.parametrize(
    ("body", "header"),
    [
        (b'"temperature": NaN', b"x"),
        (b'"user": "\\ud800"', b"x"),  # half of a character
        (b'"user": "x"', "caf\u00e9".encode()),
        (b'"user": "x"', b"caf\xe9"),
    ],
)
def test_what_is_odd_about_a_request_is_vllms_to_judge(body: bytes, header: bytes, tmp_path: Path) -> None:
    async def test(rig: Rig, front: Any) -> None:
        rig.status = 400
        odd = json.dumps(ASKED).encode()[:-1] + b", " + body + b"}"
        assert await call(front, odd, headers=[(b"user-agent", header)]) == (400, await said_no())
        assert body in rig.raw
        assert rig.asked[0]["headers"]["content-type"] == "application/json"

    run(test, tmp_path)


async def said_no() -> bytes:
    """vLLM's words, as the rig has them."""
    return bytes(await httpx.Response(400, json={"error": {"message": "vLLM says no"}}).aread())


@pytest.mark.parametrize(
    ("path", "query", "seen"),
    [
        (b"/v1/a%2Fb%00c", b"", b"/v1/a%2Fb%00c"),
        (b"/v1/a%3Fb", b"x=%20&x=1", b"/v1/a%3Fb?x=%20&x=1"),
        (b"//evil.test/v1", b"", b"//evil.test/v1"),
        (b"/v1/caf\xe9", b"q=\xff", b"/v1/caf%E9?q=%FF"),
    ],
)
def test_an_address_reaches_vllm_as_it_was_written(path: bytes, query: bytes, seen: bytes, tmp_path: Path) -> None:
    async def test(rig: Rig, front: Any) -> None:
        assert (await call(front, path="/x", target=(path, query)))[0] == 418
        assert rig.targets == [seen]

    run(test, tmp_path)


def test_an_address_that_vllm_cannot_be_asked_for_is_a_bad_request(tmp_path: Path) -> None:
    async def test(rig: Rig, front: Any) -> None:
        status, body = await call(front, path="/" + "a" * 70_000)
        assert (status, json.loads(body)["error"]["type"]) == (400, "BadRequestError")

    run(test, tmp_path)


def test_media_are_vllms_to_read_and_its_answer_is_spoken(tmp_path: Path) -> None:
    parts = [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
        {"type": "text", "text": "What is it?"},
    ]

    async def test(rig: Rig, front: Any) -> None:
        messages = [{"role": "user", "content": parts}]
        asking = asyncio.create_task(call(front, {**ASKED, "messages": messages}))
        await rig.speak()
        assert (await asking)[0] == 200
        assert rig.asked[0]["messages"] == messages

    run(test, tmp_path)


def test_a_request_beyond_what_fits_is_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig, front: Any) -> None:
        monkeypatch.setattr(app, "BODY_MOST", 200)
        status, body = await call(front, {**ASKED, "messages": [{"role": "user", "content": "x" * 200}]})
        assert status == 413
        assert "send smaller pictures or shorter sounds" in json.loads(body)["error"]["message"]
        assert rig.asked == []

    run(test, tmp_path)


def test_everything_else_is_vllms_byte_for_byte(tmp_path: Path) -> None:
    async def test(rig: Rig, front: Any) -> None:
        body = {"prompt": "x", "modalities": ["audio"]}
        for path in ("/v1/completions", "/invocations"):
            assert await call(front, body, path) == (418, b"vLLM's: " + json.dumps(body).encode())
        assert (await call(front, path="/version"))[0] == 418
        assert rig.talker.told == []

    run(test, tmp_path)


HOPS = [
    [("Connection", "close, X-Here"), ("X-Here", "1")],
    [
        ("connection", "keep-alive"),
        ("CONNECTION", "\tx-here ,,x-gone"),
        ("X-HERE", "1"),
        ("x-gone", "2"),
        ("x-gone", "3"),
    ],
    [("keep-alive", "timeout=5"), ("te", "trailers"), ("upgrade", "h2c"), ("proxy-connection", "close")],
]
"""Headers that are for one hop: of the fixed list, and what ``Connection`` names (RFC 9110, 7.6.1)."""


def sent_by(client: list[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    """As uvicorn has them: the names in lower case."""
    return [(name.lower().encode(), value.encode()) for name, value in client]


@pytest.mark.parametrize("hop", HOPS)
def test_what_is_for_one_hop_is_not_passed_on(hop: list[tuple[str, str]], tmp_path: Path) -> None:
    whole = [("x-end", "1"), ("x-end", "2")]

    async def test(rig: Rig, front: Any) -> None:
        rig.headers = [*hop, *whole]
        for body in ({**ASKED, "modalities": ["text"]}, None):
            start, *_ = await answer_of(front, body, headers=sent_by([*hop, *whole]))
            seen = [sent for sent in rig.seen if sent[0].lower() not in {b"host", b"content-length"}]
            assert seen == sent_by(whole)
            assert [(name.lower(), value) for name, value in start["headers"]] == sent_by(whole)

    run(test, tmp_path)


@pytest.mark.parametrize("hop", HOPS)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("status", [200, 429])
def test_nor_is_it_with_an_answer_in_speech(
    status: int, stream: bool, hop: list[tuple[str, str]], tmp_path: Path
) -> None:
    """What else vLLM says of its answer holds for the one that is made of it: whether a page may read it, for one."""
    whole = [("access-control-allow-origin", "*"), ("x-request-id", "7")]
    client = [("origin", "http://page.test"), ("x-end", "1")]

    async def test(rig: Rig, front: Any) -> None:
        rig.status, rig.headers = status, [*hop, *whole, ("date", "then"), ("server", "uvicorn")]
        asking = asyncio.create_task(answer_of(front, {**ASKED, "stream": stream}, headers=sent_by([*hop, *client])))
        if status == 200:
            await rig.speak()
        start, *_ = await asking
        ours = {b"content-type", b"cache-control", b"content-length"}
        assert [sent for sent in start["headers"] if sent[0] not in ours] == sent_by(whole)
        assert len([name for name, _ in start["headers"] if name == b"content-type"]) == 1
        told = rig.asked[0]["headers"]
        assert {name: told.get(name) for name in ("origin", "x-end", "x-here", "x-gone", "te")} == {
            **dict(client),
            **dict.fromkeys(("x-here", "x-gone", "te")),
        }

    run(test, tmp_path)


@pytest.mark.parametrize("modalities", [["text"], ["text", "audio"]])
def test_vllm_is_told_whom_the_client_asked(modalities: list[str], tmp_path: Path) -> None:
    """By it vLLM makes the address of a redirection (``/v1/models/``), to which the client has to find its way."""

    async def test(rig: Rig, front: Any) -> None:
        rig.status = 404
        await call(front, {**ASKED, "modalities": modalities}, headers=[(b"host", b"voice.test:8091")])
        assert [value for name, value in rig.seen if name.lower() == b"host"] == [b"voice.test:8091"]

    run(test, tmp_path)


@pytest.mark.parametrize("modalities", [["text"], ["text", "audio"]])
def test_a_request_that_cannot_be_asked_on_is_a_bad_one(modalities: list[str], tmp_path: Path) -> None:
    """One with two ``Host`` is, which uvicorn lets through."""

    async def test(rig: Rig, front: Any) -> None:
        rig.refuses = httpx.LocalProtocolError("Found multiple Host: headers")
        status, body = await call(front, {**ASKED, "modalities": modalities})
        assert (status, json.loads(body)["error"]["type"]) == (400, "BadRequestError")
        assert "multiple Host" in json.loads(body)["error"]["message"]
        assert len(rig.desk) == 0

    run(test, tmp_path)


def test_nothing_of_one_client_is_told_with_anothers_request(tmp_path: Path) -> None:
    async def test(rig: Rig, front: Any) -> None:
        rig.headers = [("set-cookie", "whose=first; Path=/")]
        for _ in range(2):
            await call(front, path="/v1/models")
            assert [name for name, _ in rig.seen] == [b"Host"]
        asking = asyncio.create_task(call(front, ASKED))
        await rig.speak()
        await asking
        assert set(rig.asked[0]["headers"]) == {"host", "content-length", "content-type"}

    run(test, tmp_path)


@pytest.mark.parametrize("path", ["/health", "/metrics"])
def test_whoever_does_not_look_there_is_vllms_to_answer(path: str, tmp_path: Path) -> None:
    async def test(rig: Rig, front: Any) -> None:
        assert (await call(front, path=path, method="HEAD"))[1] != b"vLLM's: "
        for method in ("POST", "OPTIONS", "DELETE"):
            assert await call(front, path=path, method=method) == (418, b"vLLM's: ")

    run(test, tmp_path)


@pytest.mark.parametrize("stream", [False, True])
def test_what_was_answered_was_not_aborted(stream: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request counts by its answer, also where the client is done before vLLM's connection is closed."""

    async def close(response: Any) -> None:
        await asyncio.sleep(0.01)

    async def test(rig: Rig, front: Any) -> None:
        monkeypatch.setattr(httpx.Response, "aclose", close)
        rig.go_on.clear()  # vLLM is still at it when the Talker fails
        asking = asyncio.create_task(call(front, {**ASKED, "stream": stream}))
        rig.talker.say("failed", key=await rig.key(), message="stage 1 ran out of memory")
        await asking
        rig.go_on.set()
        text = (await call(front, path="/metrics"))[1].decode()
        assert re.findall(r'speech_requests_total{outcome="(.*)"} 1.0', text) == ["failed"]

    run(test, tmp_path)


def test_a_failure_of_the_front_is_told_in_the_form_of_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(rig: Rig, front: Any) -> None:
        def fail(*_: object) -> bytes:
            raise RuntimeError("libsndfile has no such format")

        monkeypatch.setattr(chat, "packed", fail)
        sent: list[Message] = []
        asking = asyncio.create_task(answer_of(front, ASKED, sent=sent))
        await rig.speak()
        with pytest.raises(RuntimeError, match="no such format"):  # for the log
            await asking
        status, body = sent[0]["status"], json.loads(sent[1]["body"])
        assert (status, body["error"]["code"]) == (500, 500)
        assert body["error"]["message"] == "the server has failed: RuntimeError; its log says how"
        text = (await call(front, path="/metrics"))[1].decode()
        assert 'speech_requests_total{outcome="failed"} 1.0' in text
        assert len(rig.desk) == 0

    run(test, tmp_path)


def test_vllm_sees_the_key_that_a_client_sent(tmp_path: Path) -> None:
    async def test(rig: Rig, front: Any) -> None:
        asking = asyncio.create_task(call(front, ASKED, headers=[(b"authorization", b"bearer sesame")]))
        await rig.speak()
        assert (await asking)[0] == 200
        assert rig.asked[0]["headers"]["authorization"] == "bearer sesame"

    run(test, tmp_path)


@pytest.mark.parametrize("path", ["/health", "/metrics", "/version"])
def test_of_requests_that_only_look_no_body_is_read(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """These paths need no key, so a client without one must not be able to make the front hold a request."""

    async def test(rig: Rig, front: Any) -> None:
        monkeypatch.setattr(app, "BODY_MOST", 10)
        status, body = await call(front, "x" * 98, path, headers=[(b"content-length", b"100")], method="GET")
        assert status == (200 if path == "/metrics" else 418), "the answer itself"
        assert b"xxx" not in body

    run(test, tmp_path)


def test_metrics_are_vllms_and_ours(tmp_path: Path) -> None:
    async def test(rig: Rig, front: Any) -> None:
        asking = asyncio.create_task(call(front, ASKED))
        await rig.speak()
        await asking
        rig.talker.say("beat", steps=3, frames=2, open=1)
        await until_so(lambda: rig.desk.links[0].beat)
        text = (await call(front, path="/metrics"))[1].decode()
        assert text.startswith("vLLM's")
        assert 'omnicfg:stage_steps_total{stage="talker"} 3.0' in text
        assert 'omnicfg:speech_requests_total{outcome="ok"} 1.0' in text
        assert "omnicfg:time_to_first_audio_seconds_count 1.0" in text
        ours = {name for name in re.findall(r"^# TYPE (\S+) ", text, re.MULTILINE) if not name.endswith("_created")}
        page = (Path(__file__).parents[3] / "docs/speech.md").read_text(encoding="utf-8")
        assert ours == set(re.findall(r"`(omnicfg:\w+)`", page)), "speech.md lists them"

    run(test, tmp_path)
