"""Times and rates of a load, from its requests."""

from __future__ import annotations

from dataclasses import replace

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
    assert forecast.load("on", LOAD) == 30.0
    forecast.measured("on", LOAD, 4.0)
    forecast.started(20.0)
    twice = replace(LOAD, name="B", prompts=2 * LOAD.prompts)
    assert work(twice) == 2 * work(LOAD)
    assert forecast.load("on", LOAD) == 4.0
    assert forecast.load("on", twice) == forecast.load("off", twice) == pytest.approx(8.0)
    assert forecast.left([("on", [LOAD, twice]), ("off", [LOAD])]) == pytest.approx(2 * 20 + 4 + 8 + 4)


def test_an_arm_that_hits_is_not_expected_to_take_as_long_as_one_that_does_not() -> None:
    forecast = Forecast()
    cold, shared, more = replace(LOAD, shared_prefix_tokens=0), replace(LOAD, name="B"), replace(LOAD, name="C")
    for load, off, on in ((cold, 10.0, 11.0), (shared, 10.0, 2.0)):
        forecast.measured("off", load, off)
        forecast.measured("on", load, on)
    forecast.measured("off", more, 50.0)
    forecast.measured("off", replace(cold, name="D"), 50.0)
    assert forecast.load("on", more) == pytest.approx(10.0)
    assert forecast.load("on", replace(cold, name="D")) == pytest.approx(55.0)
    assert forecast.load("plain", more) == 50.0  # the longest of the arms that had it: nothing is known of this one


@pytest.mark.parametrize(("seconds", "told"), [(7.4, "7 s"), (150, "2 min"), (9000, "2.5 h")])
def test_times_as_people_say_them(seconds: float, told: str) -> None:
    assert duration(seconds) == told
