"""Times and rates of a load, from its requests."""

from __future__ import annotations

import pytest

from omnicfg.bench.loads import Load
from omnicfg.bench.progress import Forecast, duration, work
from omnicfg.bench.timing import Answered, spread, summary

LOAD = Load("A", 60, 40, 5, 0.0, 1, "text", 1, 10, 1)


def test_times_of_a_request() -> None:
    answered = Answered(sent=10.0, first=10.5, last=12.5, tokens=5, first_audio=11.0)
    assert (answered.ttft, answered.tpot, answered.ttfp) == (0.5, 0.5, 1.0)


def test_one_token_has_no_time_a_token_and_none_has_no_time_at_all() -> None:
    assert Answered(10.0, 10.5, 10.5, tokens=1).tpot is None
    assert (Answered(10.0).ttft, Answered(10.0).ttfp) == (None, None)


def test_what_is_told_of_many_times() -> None:
    assert spread([number / 1000 for number in range(1, 101)]) == {"mean": 50.5, "median": 50.5, "p99": 99.0}
    assert spread([None, 0.002]) == {"mean": 2.0, "median": 2.0, "p99": 2.0}
    assert spread([None]) is None


def test_only_requests_without_an_error_count() -> None:
    answers = [Answered(0, 1, 2, tokens=3), Answered(0, 1, 2, tokens=3, error="b"), Answered(0, error="a")]
    told = summary(answers, 2.0)
    assert (told["requests"], told["completed"], told["errors"], told["error_samples"]) == (3, 1, 2, ["a", "b"])
    assert (told["requests_per_second"], told["output_tokens"]) == (0.5, 3)


def test_what_is_left_is_guessed_from_what_it_took_before() -> None:
    forecast = Forecast()
    assert forecast.load(LOAD) == 30.0
    forecast.measured(LOAD, 4.0)
    forecast.started(20.0)
    twice = Load("B", 60, 40, 5, 0.0, 1, "text", 1, 20, 1)
    assert work(twice) == 2 * work(LOAD)
    assert forecast.load(LOAD) == 4.0
    assert forecast.load(twice) == pytest.approx(8.0)
    assert forecast.left([[LOAD, twice], [LOAD]]) == pytest.approx(2 * 20 + 4 + 8 + 4)


@pytest.mark.parametrize(("seconds", "told"), [(7.4, "7 s"), (150, "2 min"), (9000, "2.5 h")])
def test_times_as_people_say_them(seconds: float, told: str) -> None:
    assert duration(seconds) == told
