"""``omnicfg serve tiny-omni`` answers in speech: what transformers answers, in OpenAI's shape, whatever goes wrong."""

from __future__ import annotations

import base64
import contextlib
import http.client
import io
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
import wave
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from omnicfg.demo import cache_counters
from omnicfg.engine.transport import RowReceiver
from omnicfg.engine.verify_speech import (
    CASES,
    MEDIA_CASES,
    Picture,
    Sound,
    Spoken,
    ask,
    compare,
    difference,
    kept_reference,
    messages,
)
from omnicfg.models import materialize
from omnicfg.serve.machine import installed_vllm
from omnicfg.serve.processes import session_members
from tests import patience
from tests.serve.served import Served, with_python_path
from tests.vision import found

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(installed_vllm() is None, reason="needs the extra cpu or cuda"),
]

NAME = "tiny-omni"
IMPATIENT = """
from functools import partial

import omnicfg.serve.speech as speech
from omnicfg.cli import main

speech._FIRST_STALL_S = 8.0
speech.Setup = partial(speech.Setup, thinker_stall_s=8.0)
main()
"""
SPEECH: dict[str, Any] = {"modalities": ["text", "audio"], "audio": {"voice": "ethan", "format": "wav"}}
LONG: dict[str, Any] = {"max_tokens": 1500, "extra_body": {"ignore_eos": True}}
"""What is still under way when something happens to it."""


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> list[Spoken]:
    import torch

    torch.set_num_threads(1)  # of tiny matrices: threads that wait for each other cost more than they compute
    file = os.environ.get("OMNICFG_SPEECH_REFERENCE")  # kept from an earlier run, while working on this
    return kept_reference(materialize(f"builtin:{NAME}"), Path(file) if file else None)


@pytest.fixture(scope="module")
def vision(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> list[str] | str:
    """Where torchvision lies, without which the text model inside the Thinker is served; or why there is none."""
    return found(pytestconfig, tmp_path_factory)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, vision: list[str] | str) -> Iterator[Served]:
    """The whole Thinker, with its encoders, where torchvision can be had."""
    paths = [] if isinstance(vision, str) else vision
    words = (NAME, "--set", f"stages.0.shutdown_timeout={patience.PATIENCE_S:g}")
    with Served(tmp_path_factory.mktemp("speech") / "log", *words, python_path=paths) as served:
        yield served


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory, vision: list[str] | str) -> Iterator[Served]:
    """Without a prefix cache, and with no patience for stages that hang."""
    paths = [] if isinstance(vision, str) else vision
    words = (NAME, "--set", "stages.0.enable_prefix_caching=false")
    log = tmp_path_factory.mktemp("impatient") / "log"
    with Served(log, *words, python_path=paths, program=("-c", IMPATIENT)) as served:
        yield served


@pytest.fixture(scope="module")
def media_reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where what transformers answers about media is kept from one comparison to the next."""
    return tmp_path_factory.mktemp("media") / "reference.json"


@pytest.fixture
def eyes(vision: list[str] | str) -> list[str]:
    """What a process needs that looks at pictures itself."""
    if isinstance(vision, str):
        pytest.skip(vision)
    return vision


@pytest.fixture
def client(server: Served) -> Iterator[Any]:
    with _client(server) as client:
        yield client


def say(client: Any, text: str | list[dict[str, Any]] = "Say something.", **more: Any) -> Any:
    body: dict[str, Any] = {"max_tokens": 8, "temperature": 0, **SPEECH, **more}
    return client.chat.completions.create(model=NAME, messages=[{"role": "user", "content": text}], **body)


def metric(server: Served, name: str, **labels: str) -> float:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"{server.url}/metrics", timeout=60) as response:
        text = response.read().decode()
    shown = ",".join(f'{key}="{value}"' for key, value in labels.items())
    pattern = rf"^{re.escape(name)}(?:\{{[^}}]*{re.escape(shown)}[^}}]*\}})? (\S+)$"
    return sum(float(value) for value in re.findall(pattern, text, re.MULTILINE))


def connect(server: Served) -> http.client.HTTPConnection:
    address = urlsplit(server.url)
    return http.client.HTTPConnection(str(address.hostname), address.port, timeout=300)


until = partial(patience.until, poll_s=0.1)


def idle(server: Served) -> bool:
    """Whether no stage holds a request."""
    held = metric(server, "omnicfg:open_speeches") + metric(server, "omnicfg:stage_open_requests")
    return held + metric(server, "vllm:num_requests_running") + metric(server, "vllm:num_requests_waiting") == 0


def workers(server: Served) -> dict[str, int]:
    """The processes of the later stages, by the socket that each hands its rows on at."""
    found = {}
    for pid, line in server.command_lines().items():
        if b"omnicfg.engine.worker" in line.split(b"\0"):
            [stage] = re.findall(rb"OMNICFG_STAGE=(\w+)", Path(f"/proc/{pid}/environ").read_bytes())
            found[stage.decode()] = pid
    return found


def steps(server: Served) -> float:
    """The steps of all later stages, once they have told of all of them: each reports every second."""
    before, now = -1.0, metric(server, "omnicfg:stage_steps_total")
    while now != before:
        time.sleep(2)
        before, now = now, metric(server, "omnicfg:stage_steps_total")
    return now


# ------------------------------------------------------------------------------------------------------- right answers


def test_every_answer_is_that_of_transformers_alone_from_the_cache_and_eight_at_a_time(
    server: Served, reference: list[Spoken]
) -> None:
    assert compare(server.url, NAME, reference, together=8) == []
    hits, _ = cache_counters(server.url)
    assert hits >= 32 * len(CASES), "the second and third round hit"
    assert metric(server, "omnicfg:payload_rows_total") > 0


def test_a_comparison_sees_one_wrong_code_and_one_wrong_sample(reference: list[Spoken]) -> None:
    right = reference[0]
    codes = [*right.codes[:-1], [*right.codes[-1][:-1], right.codes[-1][-1] ^ 1]]
    assert "codes differ from frame" in str(difference(Spoken(right.text, codes, right.wave), right))
    louder = [*right.wave[:-1], right.wave[-1] + 2e-4]
    assert "off by" in str(difference(Spoken(right.text, right.codes, louder), right))


# ------------------------------------------------------------------------------------------------ pictures and sounds


def test_about_pictures_and_sounds_every_answer_is_transformers(
    server: Served, eyes: list[str], media_reference: Path
) -> None:
    """Cold, from the prefix cache, and six at a time; transformers' processors on the other side."""
    hits, _ = cache_counters(server.url)
    _verify_media(server, eyes, media_reference)
    assert cache_counters(server.url)[0] - hits >= 32 * len(MEDIA_CASES), "the second and third round hit"


def test_pictures_and_sounds_are_counted_by_modality(client: Any, eyes: list[str]) -> None:
    parts = [Picture(160, 96, 1).part(), Sound(1000, 2).part(), {"type": "text", "text": "Which was first?"}]
    silent = client.chat.completions.create(
        model=NAME, messages=[{"role": "user", "content": parts}], max_tokens=8, temperature=0
    )
    spoken = say(client, parts)
    assert spoken.choices[0].message.content == silent.choices[0].message.content != ""
    told = spoken.usage.prompt_tokens_details
    assert (told.image_tokens, told.audio_tokens) == (15, 13)
    assert told.text_tokens == spoken.usage.prompt_tokens - 28 == silent.usage.prompt_tokens - 28


@pytest.mark.parametrize("modalities", [["text"], ["text", "audio"]])
@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("http://127.0.0.1:1/a.png", "of remote hosts, none may be asked here"),
        ("file:///etc/hostname", "no files are read here"),
        ("data:image/png;base64,AAAA", "cannot identify image file"),
    ],
)
def test_media_that_are_not_read_are_refused_with_the_reason(
    modalities: list[str], address: str, told: str, client: Any, eyes: list[str], server: Served
) -> None:
    import openai

    with pytest.raises(openai.BadRequestError, match=re.escape(told)):
        say(client, [{"type": "image_url", "image_url": {"url": address}}], modalities=modalities)
    until(lambda: idle(server))


# --------------------------------------------------------------------------------------------------------- the protocol


def test_the_openai_client_gets_a_wave_and_its_transcript(client: Any) -> None:
    answer = say(client)
    message, usage = answer.choices[0].message, answer.usage
    with wave.open(io.BytesIO(base64.b64decode(message.audio.data))) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, 24000)
        frames = file.getnframes()
    assert message.audio.transcript == message.content != ""
    assert message.audio.id.startswith("audio_")
    assert message.audio.expires_at == answer.created
    details = usage.completion_tokens_details
    assert details.text_tokens == 8
    assert usage.completion_tokens == details.text_tokens + details.audio_tokens
    assert 0 <= details.audio_tokens * 1920 - frames < 1920
    assert answer.choices[0].finish_reason == "length"


def test_a_streamed_answer_is_the_same_answer(client: Any) -> None:
    whole = say(client, max_tokens=64, audio={"voice": "aiden", "format": "pcm16"})
    stream = say(
        client,
        max_tokens=64,
        audio={"voice": "aiden", "format": "pcm16"},
        stream=True,
        stream_options={"include_usage": True},
    )
    text, transcript, pcm, ends = "", "", b"", []
    for event in stream:
        if event.usage:
            assert event.usage.completion_tokens_details.audio_tokens > 0
        for choice in event.choices:
            text += choice.delta.content or ""
            audio = choice.delta.audio
            transcript += (audio.transcript or "") if audio else ""
            if audio and audio.data:
                pcm += base64.b64decode(audio.data)
            ends.append(choice.finish_reason)
    assert text == transcript == whole.choices[0].message.content
    assert pcm == base64.b64decode(whole.choices[0].message.audio.data)
    assert ends[-1] == "length"
    assert not any(ends[:-1]), "an answer ends once"


def test_a_streams_audio_begins_before_its_text_ends(client: Any, server: Served) -> None:
    kinds = []
    with say(client, stream=True, audio={"voice": "aiden", "format": "pcm16"}, **LONG) as stream:
        for event in stream:
            delta = event.choices[0].delta
            kinds += ["text"] * bool(delta.content) + ["audio"] * bool(delta.audio and delta.audio.data)
            if kinds[-1:] == ["text"] and "audio" in kinds:
                break
        assert kinds[0] == "text"
        assert kinds[-1] == "text", "text goes on"
        assert event.choices[0].finish_reason is None
    until(lambda: idle(server))


def test_a_streamed_wave_begins_with_a_header(client: Any) -> None:
    stream = say(client, stream=True)
    data = b"".join(
        base64.b64decode(event.choices[0].delta.audio.data)
        for event in stream
        if event.choices and event.choices[0].delta.audio and event.choices[0].delta.audio.data
    )
    assert data[:4] == b"RIFF"
    assert data[44:] == base64.b64decode(
        say(client, audio={"voice": "ethan", "format": "pcm16"}).choices[0].message.audio.data
    )


@pytest.mark.parametrize("name", ["flac", "mp3", "opus"])
def test_other_formats_hold_the_same_sound(name: str, client: Any) -> None:
    soundfile = pytest.importorskip("soundfile", reason="comes with the extra audio")
    pcm, packed = (
        base64.b64decode(say(client, audio={"voice": "ethan", "format": one}).choices[0].message.audio.data)
        for one in ("pcm16", name)
    )
    samples, rate = soundfile.read(io.BytesIO(packed), dtype="int16")
    if name == "flac":
        assert (rate, samples.tobytes()) == (24000, pcm)
    assert abs(len(samples) / rate - len(pcm) / 48000) < 0.1


def test_voices_differ(client: Any) -> None:
    said = {
        name: say(client, audio={"voice": name, "format": "pcm16"}).choices[0].message for name in ("ethan", "Chelsie")
    }
    assert said["ethan"].content == said["Chelsie"].content
    assert said["ethan"].audio.data != said["Chelsie"].audio.data


def test_sagemakers_path_gives_the_same_answer(client: Any, server: Served) -> None:
    messages = [{"role": "user", "content": "Say something."}]
    asked = json.dumps({"messages": messages, "max_tokens": 8, "temperature": 0, **SPEECH}).encode()
    status, answer = server.ask("/invocations", asked)
    assert status == 200
    told, wanted = json.loads(answer)["choices"][0]["message"], say(client).choices[0].message
    assert (told["content"], told["audio"]["data"]) == (wanted.content, wanted.audio.data)


def test_audio_alone_has_no_content(client: Any) -> None:
    message = say(client, modalities=["audio"]).choices[0].message
    assert message.content is None
    assert message.audio.transcript


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"audio": {"voice": "nobody", "format": "wav"}}, "this model has chelsie, ethan, aiden"),
        ({"audio": {"voice": "ethan", "format": "au"}}, "audio.format is 'au'"),
        ({"audio": {"voice": "ethan", "format": "flac"}, "stream": True}, "cannot be streamed"),
        ({"modalities": ["audio", "smell"]}, "neither text nor audio"),
        ({"n": 2}, "speech is made for one answer"),
        ({"temperature": -1}, "temperature"),
    ],
)
def test_what_cannot_be_said_is_refused_with_the_reason(
    wrong: dict[str, Any], told: str, client: Any, server: Served
) -> None:
    import openai

    with pytest.raises(openai.BadRequestError, match=re.escape(told)):
        say(client, **wrong)
    until(lambda: idle(server))


def test_a_text_request_wakes_no_later_stage(client: Any, server: Served) -> None:
    before = steps(server)
    answer = client.chat.completions.create(model=NAME, messages=[{"role": "user", "content": "Hi"}], max_tokens=20)
    assert answer.choices[0].message.content
    assert answer.choices[0].message.audio is None
    assert steps(server) == before


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_goes_frees_every_stage(stream: bool, server: Served) -> None:
    body = {"model": NAME, "messages": [{"role": "user", "content": "Go on"}], "max_tokens": 1500, "ignore_eos": True}
    speech = {**SPEECH, "stream": True, "audio": {"voice": "ethan", "format": "pcm16"}} if stream else SPEECH
    connection = connect(server)
    connection.request("POST", "/v1/chat/completions", json.dumps({**body, **speech}))
    until(lambda: metric(server, "omnicfg:open_speeches") == 1)
    connection.close()
    until(lambda: idle(server))


# --------------------------------------------------------------------------------------------------------------- faults


@pytest.mark.parametrize("stage", ["talker", "code2wav"])
def test_a_stage_that_dies_fails_its_requests_and_comes_back(stage: str, client: Any, server: Served) -> None:
    import openai

    victim, restarts = workers(server)[stage], metric(server, "omnicfg:stage_restarts_total", stage=stage)
    with ThreadPoolExecutor() as pool:
        speaking = pool.submit(say, client, **LONG)
        reading = pool.submit(
            client.chat.completions.create,
            model=NAME,
            messages=[{"role": "user", "content": "Hi"}],
            max_tokens=100,
            extra_body={"ignore_eos": True},
        )
        until(lambda: metric(server, "omnicfg:open_speeches") == 1)
        os.kill(victim, signal.SIGKILL)
        with pytest.raises(openai.InternalServerError, match=f"{stage}.* died"):
            speaking.result(timeout=120)
        assert reading.result(timeout=120).usage.completion_tokens == 100, "text goes on"
    until(lambda: metric(server, "omnicfg:stage_up") == 2, 180)
    assert metric(server, "omnicfg:stage_restarts_total", stage=stage) == restarts + 1
    assert say(client).choices[0].message.audio.data
    until(lambda: idle(server))


def test_mixed_requests_with_random_aborts_leak_nothing(server: Served, reference: list[Spoken]) -> None:
    """500 requests, 32 at a time: text, speech, streams, clients that go. Every answer is right, or a clear error."""
    count = int(os.environ.get("OMNICFG_SOAK_REQUESTS", "500"))
    outcomes: Counter[str] = Counter()
    lock = threading.Lock()

    def one(number: int) -> None:
        dice = random.Random(number)
        kind = dice.choice(["speech", "text", "text", "abort", "abort stream", "bad voice"])
        outcome = _one_request(server, reference, kind, dice)
        with lock:
            outcomes[outcome] += 1

    with ThreadPoolExecutor(32) as pool:
        list(pool.map(one, range(64)))  # as many connections as will be kept open
        before = _open_files(server)
        outcomes.clear()
        list(pool.map(one, range(count)))
    assert set(outcomes) <= {"right", "gone", "refused"}, outcomes
    assert sum(outcomes.values()) == count
    until(lambda: idle(server))
    until(lambda: _open_files(server) <= before + 8)
    assert metric(server, "omnicfg:stage_up") == 2


def test_a_stop_signal_to_everybody_lets_all_finish_and_leaves_nothing(server: Served) -> None:
    """As systemd sends it, to every process of a service."""
    session = server.session
    long = partial(say, **{**LONG, "max_tokens": 400})
    with _client(server) as client, ThreadPoolExecutor() as pool:
        speaking, reading = pool.submit(long, client), pool.submit(long, client, modalities=["text"])
        until(lambda: metric(server, "vllm:num_requests_running") == 2)
        for process in (server.process.pid, *session_members(session)):
            os.kill(process, signal.SIGTERM)
        spoken, read = speaking.result(timeout=120), reading.result(timeout=120)
    assert read.usage.completion_tokens == spoken.usage.completion_tokens_details.text_tokens == 400
    assert read.choices[0].message.content == spoken.choices[0].message.content
    assert spoken.choices[0].message.audio.data
    assert server.end() == 0
    assert server.leftovers(session) == []


# ---------------------------------------------------------------- without the cache, and stages that are alive and hang


def test_without_the_cache_every_answer_is_the_same(impatient: Served, reference: list[Spoken]) -> None:
    assert compare(impatient.url, NAME, reference, together=8) == []
    assert cache_counters(impatient.url)[0] == 0


def test_without_the_cache_answers_about_pictures_and_sounds_are_the_same(
    impatient: Served, eyes: list[str], media_reference: Path
) -> None:
    _verify_media(impatient, eyes, media_reference)
    assert cache_counters(impatient.url)[0] == 0


@pytest.mark.parametrize("stage", ["talker", "code2wav"])
def test_a_stage_that_hangs_fails_its_requests_and_comes_back(stage: str, impatient: Served) -> None:
    import openai

    victim = workers(impatient)[stage]
    with _client(impatient) as client, ThreadPoolExecutor() as pool:
        speaking = pool.submit(say, client, **LONG)
        until(lambda: metric(impatient, "omnicfg:open_speeches") == 1)
        os.kill(victim, signal.SIGSTOP)
        with pytest.raises(openai.InternalServerError, match=f"{stage}.* was silent for 8 s"):
            speaking.result(timeout=120)
        until(lambda: metric(impatient, "omnicfg:stage_up") == 2, 180)
        assert say(client).choices[0].message.audio.data
        until(lambda: idle(impatient))


def test_a_first_stage_that_hangs_fails_all_requests_and_ends_the_server(impatient: Served) -> None:
    import openai

    session, engine = impatient.session, impatient.engine_process()
    with _client(impatient) as client, ThreadPoolExecutor() as pool:
        speaking = pool.submit(say, client, **LONG)
        reading = pool.submit(say, client, modalities=["text"], **LONG)
        until(lambda: metric(impatient, "vllm:num_requests_running") == 2)
        os.kill(engine, signal.SIGSTOP)
        with pytest.raises(openai.InternalServerError, match=r"stage 0 (made no step for 8 s|was lost)"):
            speaking.result(timeout=120)
        with pytest.raises(openai.InternalServerError, match="stage 0 does not answer"):
            reading.result(timeout=120)
    assert impatient.end() == 2
    assert "stage 0 made no step for 8 s" in impatient.log.read_text()
    assert impatient.leftovers(session) == []


def test_speech_whose_hidden_states_were_lost_while_the_talker_stood_still_fails(
    tmp_path: Path, vision: list[str] | str
) -> None:
    """The Thinker gives up on it after ten seconds, in the middle of one request and before another one has begun."""
    import openai

    paths = [] if isinstance(vision, str) else vision
    words = (NAME, "--set", "stages.0.max_num_seqs=1")
    with Served(tmp_path / "log", *words, python_path=paths) as server, _client(server) as client:
        talker = workers(server)["talker"]
        [rows] = map(Path, re.findall(r"requests that ask for them are at (\S+)", server.log.read_text()))
        with ThreadPoolExecutor() as pool:
            speaking = pool.submit(say, client, **{**LONG, "max_tokens": 800})
            until(lambda: metric(server, "vllm:num_requests_running") == 1)
            waiting = pool.submit(say, client, "What is this? <|audio_pad|>")
            until(lambda: metric(server, "vllm:num_requests_waiting") == 1)
            os.kill(talker, signal.SIGSTOP)
            until(lambda: metric(server, "vllm:request_success_total") == 2)
            RowReceiver(rows, timeout=patience.PATIENCE_S).close()  # nobody else is let in before it is given up
            os.kill(talker, signal.SIGCONT)
            with pytest.raises(openai.InternalServerError, match="hidden states of the prompt were lost"):
                waiting.result(timeout=120)
            assert speaking.result(timeout=120).usage.completion_tokens_details.text_tokens == 800
        until(lambda: idle(server))
        assert say(client, "What is this? <|audio_pad|>").choices[0].message.audio.data


def _client(served: Served) -> Any:
    import openai

    return openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0, timeout=300)


def _verify_media(served: Served, eyes: list[str], kept: Path) -> None:
    program = ["-m", "omnicfg.engine.verify_speech", str(materialize(f"builtin:{NAME}")), served.url]
    done = subprocess.run(
        [sys.executable, *program, "--media", "--together", "6", "--reference", str(kept)],
        env={**os.environ, **with_python_path(eyes), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]


def _open_files(server: Served) -> int:
    count = 0
    for pid in server.command_lines():
        with contextlib.suppress(OSError):  # it has just ended
            count += len(list(Path(f"/proc/{pid}/fd").iterdir()))
    return count


def _one_request(server: Served, reference: list[Spoken], kind: str, dice: random.Random) -> str:
    number = dice.choice([0, 3, 5])
    case = CASES[number]
    if kind == "speech":
        return difference(ask(server.url, case, NAME), reference[number]) or "right"
    speech = {"modalities": ["text", "audio"], "audio": {"voice": case.voice, "format": "pcm16"}}
    body: dict[str, Any] = {"model": NAME, "messages": messages(case), "max_tokens": case.tokens, "temperature": 0}
    if kind == "bad voice":
        body |= {**speech, "audio": {"voice": "nobody", "format": "pcm16"}}
    elif kind != "text":
        body |= {**speech, "stream": kind == "abort stream", "max_tokens": 300}
    connection = connect(server)
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        if kind.startswith("abort"):
            time.sleep(dice.random() * 2)
            return "gone"
        response = connection.getresponse()
        answer = json.loads(response.read())
        if kind == "bad voice":
            return "refused" if response.status == 400 else f"{response.status} {answer}"
        return (
            "right" if response.status == 200 and answer["choices"][0]["message"]["content"] else f"{response.status}"
        )
    finally:
        connection.close()
