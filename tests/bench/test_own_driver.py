"""Our own client, against a fake server: what is sent, how many at a time, and what counts as an error."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from omnicfg.bench.drivers import Task, names
from omnicfg.bench.drivers.own import drive
from omnicfg.bench.loads import Load
from omnicfg.bench.metrics import Watch
from omnicfg.bench.prompts import Vocabulary, prompts_of
from omnicfg.bench.server import Server
from omnicfg.errors import ServeError
from tests.bench.fake_openai import FakeOpenAI

pytest.importorskip("aiohttp")
pytest.importorskip("numpy")

LOAD = Load("A", 32, 8, 5, 0.0, 1, "text", 4, 12, 1)
VOCABULARY = Vocabulary(1000)


def driven(fake: FakeOpenAI, load: Load = LOAD, key: str | None = None) -> tuple[dict[str, Any], list[int]]:
    done: list[int] = []
    server = Server(Watch(fake.url, key), "fake")
    return drive(Task(load, server, VOCABULARY, Path(), Path(), done.append)), done


def test_every_prompt_is_sent_once_greedily_and_to_its_full_length() -> None:
    with FakeOpenAI() as fake:
        told, done = driven(fake)
    expected = sorted(prompt.tokens for prompt in prompts_of(LOAD, VOCABULARY))
    assert sorted(body["prompt"] for body in fake.asked) == expected
    assert {(body["temperature"], body["ignore_eos"], body["max_tokens"]) for body in fake.asked} == {(0, True, 5)}
    assert (told["requests"], told["completed"], told["errors"], told["output_tokens"]) == (12, 12, 0, 60)
    assert done == list(range(1, 13))


def test_rates_and_times_fit_together() -> None:
    with FakeOpenAI() as fake:
        told, _ = driven(fake)
    assert told["requests_per_second"] * told["seconds"] == pytest.approx(12, abs=told["requests_per_second"] / 1000)
    assert 0 < told["ttft_ms"]["median"] <= told["ttft_ms"]["p99"]
    assert told["tpot_ms"]["mean"] >= 0
    assert told["ttfp_ms"] is None


def test_never_more_at_a_time_than_the_load_says() -> None:
    with FakeOpenAI() as fake:
        driven(fake, replace(LOAD, prompts=40, concurrency=3))
    assert 1 <= fake.most_open <= 3


def test_a_key_goes_with_every_request() -> None:
    with FakeOpenAI() as fake:
        driven(fake, key="sesame")
    assert fake.keys == {"Bearer sesame"}


def test_speech_is_asked_for_as_a_chat_and_its_first_packet_is_timed() -> None:
    with FakeOpenAI() as fake:
        told, _ = driven(fake, replace(LOAD, answer="speech"))
    assert all(body["modalities"] == ["text", "audio"] for body in fake.asked)
    assert len(fake.asked[0]["messages"][0]["content"].split()) == 40
    assert (told["errors"], told["output_tokens"]) == (0, 60)
    assert told["ttfp_ms"]["mean"] >= told["ttft_ms"]["mean"]
    samples = round(told["audio_seconds"] * 24_000)
    assert samples >= told["requests"]
    assert samples % told["requests"] == 0
    assert told["real_time_factor"]["mean"] > 1


@pytest.mark.parametrize(
    ("behaviour", "errors", "sample"),
    [
        ("short", 12, "4 tokens came of 5"),
        ("refuses", 4, '503: {"error": "too busy"}'),
        ("breaks-off", 12, "ClientPayloadError"),
        ("no-usage", 12, "the answer ended without its `usage`"),
        ('says:{"error": {"message": "no room"}}', 12, '{"message": "no room"}'),
        *(
            (f"says:{said}", 12, f"ValueError: what came is no part of an answer: {said}")
            for said in (
                *("{", "5", "[1]", '{"choices": 5}', '{"choices": [5]}', '{"choices": [{"delta": "a"}]}'),
                *('{"choices": [{"delta": {"audio": [5]}}]}', '{"choices": [{"delta": {"audio": {"data": 5}}}]}'),
                *('{"usage": 5}', '{"usage": {"completion_tokens": "many"}}', '{"usage": {"prompt_tokens": 3}}'),
            )
        ),
        ("says:" + 9999 * "[", 12, "ValueError: what came is no part of an answer: [[["),
    ],
)
def test_errors_are_counted_and_do_not_count_as_requests(behaviour: str, errors: int, sample: str) -> None:
    with FakeOpenAI(behaviours=frozenset({behaviour})) as fake:
        told, _ = driven(fake)
    assert (told["errors"], told["completed"]) == (errors, 12 - errors)
    assert told["error_samples"][0].startswith(sample)


@pytest.mark.parametrize("form", ["crlf", "named", "pings", "no-end"])
def test_every_form_of_server_sent_events_is_read(form: str) -> None:
    with FakeOpenAI(behaviours=frozenset({form})) as fake:
        told, _ = driven(fake)
    assert (told["errors"], told["output_tokens"]) == (0, 60)


def test_a_server_that_spells_no_prompts_is_told() -> None:
    with FakeOpenAI(behaviours=frozenset({"spells-nothing"})) as fake, pytest.raises(ServeError, match="no JSON: <htm"):
        driven(fake, replace(LOAD, answer="speech"))


def test_a_server_that_is_gone_is_an_error_of_every_request() -> None:
    with FakeOpenAI() as fake:
        pass
    told, _ = driven(fake)
    assert (told["errors"], told["requests_per_second"], told["ttft_ms"]) == (12, 0.0, None)


def test_drivers_are_found_by_their_names() -> None:
    assert names() == ("own", "vllm-bench")
