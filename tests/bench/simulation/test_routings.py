"""Routings: each does what the router does that it follows, and names settings for it."""

from __future__ import annotations

import pytest

from omnicfg.bench.simulation.routings import names, routing
from omnicfg.errors import UsageError

IDLE = [0, 0]


def test_all_have_settings_with_nothing_left_to_fill_in() -> None:
    assert names() == ("cache-aware", "least-loaded", "prefix-aware", "round-robin")
    for name in names():
        told = [form.format(replicas=2, urls="U", workers="W") for form in routing(name).SETTINGS]
        assert told
        assert any(word in line for line in told for word in ("U", "W", "num_replicas: 2", "data_parallel_size: 2"))


def test_a_routing_that_is_not_there() -> None:
    with pytest.raises(UsageError, match="no routing `random`"):
        routing("random")


def test_round_robin_takes_turns_whatever_is_asked() -> None:
    choice = routing("round-robin").start(3)
    assert [choice.choose([1, 2], [9, 0, 0]) for _ in range(4)] == [0, 1, 2, 0]


def test_least_loaded_takes_the_one_with_the_fewest_in_flight_and_turns_among_equals() -> None:
    choice = routing("least-loaded").start(3)
    assert choice.choose([], [2, 1, 3]) == 1
    assert [choice.choose([], [0, 0, 0]) for _ in range(3)] == [1, 2, 0]


def test_prefix_aware_keeps_a_beginning_where_it_was_however_busy_that_is() -> None:
    choice = routing("prefix-aware").start(2)
    first = choice.choose([1, 2, 3], IDLE)
    in_flight = [0, 0]
    in_flight[first] = 1000
    assert {choice.choose([1, 2, number], in_flight) for number in range(10, 30)} == {first}
    assert {choice.choose([100 + number], IDLE) for number in range(20)} == {0, 1}


def test_cache_aware_spreads_what_matches_too_little_and_what_would_be_unfair() -> None:
    choice = routing("cache-aware").start(2)
    assert choice.choose([1, 2, 3, 4], IDLE) == 0
    assert choice.choose([1, 2, 9, 9], IDLE) == 0
    assert choice.choose([1, 7, 7, 7], IDLE) == 1, "a quarter matches, and the other one saw less"
    assert choice.choose([1, 2, 3, 4], [64, 0]) == 0, "not more than 64"
    assert choice.choose([1, 2, 3, 4], [65, 0]) == 1
    assert choice.choose([5, 5], [300, 230]) in (0, 1)
    assert choice.choose([1, 2, 3, 9], [165, 100]) == 0 or choice.choose([1, 2, 3, 4], [165, 100]) == 1
