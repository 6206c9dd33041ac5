"""The Talker says the codes that transformers says, however its text comes and whoever speaks beside it."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="comes with the extra cpu or cuda")
pytest.importorskip("transformers", reason="comes with the extra cpu or cuda")

from omnicfg.engine.stages import Ended, Executor, RequestError, make
from tests.engine.stages.conftest import Known, options

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]


class Listener:
    """Runs an executor for as long as it has something to do, and keeps what it hands on."""

    def __init__(self, executor: Executor, credit: bool = True) -> None:
        self.executor, self.credit = executor, credit
        self.codes: dict[str, list[list[int]]] = defaultdict(list)
        self.ended: dict[str, Ended] = {}

    def run(self) -> None:
        while keys := self.executor.ready():
            chunks, ended = self.executor.run(keys)
            for chunk in chunks:
                assert chunk.start == len(self.codes[chunk.key])
                self.codes[chunk.key] += chunk.rows.reshape(len(chunk.rows), -1).tolist()
                if self.credit:
                    self.executor.credit(chunk.key, len(self.codes[chunk.key]))
            self.ended.update({end.key: end for end in ended})


@pytest.fixture(scope="module")
def executor(model: Path) -> Executor:
    return make("codec-talker", options(model, "talker"))


def begin(executor: Executor, key: str, known: Known) -> None:
    executor.open(key, {"voice": known.case.voice})
    executor.text(key, known.prompt, prompt=True, last=False)
    executor.rows(key, 0, known.rows)


def whole_text(executor: Executor, key: str, known: Known) -> None:
    executor.text(key, known.spoken.text, prompt=False, last=True)


def test_alone_each_says_what_transformers_says(executor: Executor, known: list[Known]) -> None:
    for number, one in enumerate(known):
        listener = Listener(executor)
        begin(executor, str(number), one)
        whole_text(executor, str(number), one)
        listener.run()
        assert listener.codes[str(number)] == one.spoken.codes
        assert listener.ended[str(number)] == Ended(str(number), len(one.spoken.codes), len(one.spoken.codes), "stop")
    assert executor.open_requests() == 0


def test_together_they_say_the_same(executor: Executor, known: list[Known]) -> None:
    listener = Listener(executor)
    twice = {f"{turn} {number}": one for turn in range(2) for number, one in enumerate(known)}
    for key, one in twice.items():
        begin(executor, key, one)
        whole_text(executor, key, one)
    listener.run()
    assert {key: listener.codes[key] for key in twice} == {key: one.spoken.codes for key, one in twice.items()}


def test_text_that_comes_token_by_token_is_spoken_as_it_comes(executor: Executor, known: list[Known]) -> None:
    listener = Listener(executor)
    for number, one in enumerate(known):
        begin(executor, str(number), one)
    longest = max(len(one.spoken.text) for one in known)
    for place in range(longest):
        for number, one in enumerate(known):
            if place < len(one.spoken.text):
                last = place + 1 == len(one.spoken.text)
                executor.text(str(number), [one.spoken.text[place]], prompt=False, last=last)
        listener.run()
        if place == 2:
            assert all(len(listener.codes[str(number)]) == 1 for number in range(len(known))), "two tokens behind"
    assert [listener.codes[str(number)] for number in range(len(known))] == [one.spoken.codes for one in known]


def test_without_chunks_it_waits_for_the_whole_text(model: Path, known: list[Known]) -> None:
    executor = make("codec-talker", options(model, "talker", async_chunk=False))
    begin(executor, "a", known[0])
    executor.text("a", known[0].spoken.text[:6], prompt=False, last=False)
    assert executor.ready() == []
    executor.text("a", known[0].spoken.text[6:], prompt=False, last=True)
    listener = Listener(executor)
    listener.run()
    assert listener.codes["a"] == known[0].spoken.codes


def test_it_stops_at_a_window_of_frames_that_nobody_has_taken(model: Path, known: list[Known]) -> None:
    executor = make("codec-talker", options(model, "talker", window=5))
    listener = Listener(executor, credit=False)
    for key in ("slow", "fast"):
        begin(executor, key, known[2])
        whole_text(executor, key, known[2])
    listener.run()
    assert len(listener.codes["slow"]) == len(listener.codes["fast"]) == 5
    executor.credit("fast", 1000)
    listener.run()
    assert listener.codes["fast"] == known[2].spoken.codes, "a slow client holds up nobody else"
    assert len(listener.codes["slow"]) == 5
    executor.credit("slow", 3)
    listener.run()
    assert len(listener.codes["slow"]) == 8


def test_more_requests_than_slots_wait_for_one(model: Path, known: list[Known]) -> None:
    executor = make("codec-talker", options(model, "talker", limit=1))
    listener = Listener(executor)
    for number, one in enumerate(known):
        begin(executor, str(number), one)
        whole_text(executor, str(number), one)
    listener.run()
    assert [listener.codes[str(number)] for number in range(len(known))] == [one.spoken.codes for one in known]


def test_a_request_that_is_dropped_leaves_its_slot(model: Path, known: list[Known]) -> None:
    executor = make("codec-talker", options(model, "talker", limit=1))
    begin(executor, "gone", known[0])
    whole_text(executor, "gone", known[0])
    executor.run(executor.ready())
    executor.drop("gone")
    listener = Listener(executor)
    begin(executor, "next", known[1])
    whole_text(executor, "next", known[1])
    listener.run()
    assert listener.codes["next"] == known[1].spoken.codes


def test_where_there_is_no_text_there_is_no_speech(executor: Executor, known: list[Known]) -> None:
    listener = Listener(executor)
    begin(executor, "a", known[0])
    executor.text("a", known[0].spoken.text[:1], prompt=False, last=True)
    listener.run()
    assert listener.codes["a"] == []
    assert listener.ended["a"].frames == 0


def test_a_prompt_with_sounds_waits_for_their_rows(executor: Executor, known: list[Known]) -> None:
    one = known[1]
    executor.open("a", {"voice": one.case.voice})
    executor.text("a", one.prompt, prompt=True, last=False)
    whole_text(executor, "a", one)
    executor.rows("a", 0, one.rows[:10])
    assert executor.ready() == []
    executor.rows("a", 10, one.rows[10:])
    listener = Listener(executor)
    listener.run()
    assert listener.codes["a"] == one.spoken.codes


def test_one_wrong_row_would_be_heard(executor: Executor, known: list[Known]) -> None:
    one = known[1]
    rows = one.rows.copy()
    rows[_sound(one)] *= -1
    executor.open("a", {"voice": one.case.voice})
    executor.text("a", one.prompt, prompt=True, last=False)
    executor.rows("a", 0, rows)
    whole_text(executor, "a", one)
    listener = Listener(executor)
    listener.run()
    assert listener.codes["a"] != one.spoken.codes


def _sound(known: Known) -> int:
    from omnicfg.models import tiny_omni
    from omnicfg.models._tokenizer import AUDIO

    return known.prompt.index(tiny_omni.token(AUDIO))


def test_rows_that_were_lost_are_an_error_of_that_request(executor: Executor, known: list[Known]) -> None:
    one = known[1]
    executor.open("a", {"voice": one.case.voice})
    executor.text("a", one.prompt, prompt=True, last=False)
    whole_text(executor, "a", one)
    executor.rows("a", 5, one.rows[5:])
    executor.rows_end("a", len(one.rows))
    with pytest.raises(RequestError, match="lost on their way"):
        executor.run(executor.ready())
    executor.drop("a")


def test_nobody_waits_for_rows_whose_end_may_have_been_lost(executor: Executor, known: list[Known]) -> None:
    """A request that has all rows of its prompt speaks on, although the stage before cannot be heard for a while."""
    one = known[1]
    executor.open("part", {"voice": one.case.voice})
    executor.text("part", one.prompt, prompt=True, last=False)
    executor.rows("part", 0, one.rows[: _sound(one)])
    whole_text(executor, "part", one)
    assert executor.ready() == []
    begin(executor, "whole", one)
    executor.rows_cut()
    with pytest.raises(RequestError, match="lost on their way"):
        executor.run(executor.ready())
    executor.drop("part")
    whole_text(executor, "whole", one)
    listener = Listener(executor)
    listener.run()
    assert listener.codes["whole"] == one.spoken.codes


def test_what_cannot_be_spoken_is_refused(executor: Executor) -> None:
    with pytest.raises(RequestError, match="chelsie, ethan, aiden"):
        executor.open("a", {"voice": "nobody"})
    executor.open("a", {"voice": "ethan"})
    with pytest.raises(RequestError, match="no assistant's turn"):
        executor.text("a", [1, 2, 3], prompt=True, last=False)
    executor.drop("a")


@pytest.mark.parametrize("seeds", [(7, 7), (7, 8)])
def test_sampling_depends_on_the_seed_and_on_nobody_beside_it(
    seeds: tuple[int, int], model: Path, known: list[Known]
) -> None:
    sampling = {"temperature": 0.9, "top_k": 50, "top_p": 0.95, "repetition_penalty": 1.05, "max_tokens": 40}
    said: list[Any] = []
    for seed, beside in zip(seeds, (0, 2), strict=True):
        executor = make("codec-talker", options(model, "talker", sampling=sampling))
        listener = Listener(executor)
        for key in ("a", *(f"other {number}" for number in range(beside))):
            executor.open(key, {"voice": "ethan", "seed": seed if key == "a" else None})
            executor.text(key, known[2].prompt, prompt=True, last=False)
            whole_text(executor, key, known[2])
        listener.run()
        said.append(listener.codes["a"])
    assert (said[0] == said[1]) == (seeds[0] == seeds[1])
    assert len(said[0]) > 1
