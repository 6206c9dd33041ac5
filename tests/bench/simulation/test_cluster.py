"""Clusters in simulated time: what steps take, who waits for whom, and what comes of sharing a prefix."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import pytest

from omnicfg.bench.loads import Load
from omnicfg.bench.simulation.cluster import Outcome, Traffic, simulate
from omnicfg.bench.simulation.replica import Limits, Speed
from omnicfg.bench.simulation.trace import Call, Part, calls_of
from omnicfg.errors import ServeError, UsageError

pytest.importorskip("simpy")
pytest.importorskip("numpy")

SPEED = Speed((0.010, 0.001, 0.0, 0.002, 0.0, 0.0))
"""10 ms a step, 1 ms a token of a prompt, 2 ms a token of an answer."""
LIMITS = Limits(block_tokens=10, blocks=1001, requests=4, step_tokens=100)


def sent(*calls: Call, replicas: int = 1, by: str = "round-robin", limits: Limits = LIMITS, **more: Any) -> Outcome:
    return simulate(Traffic.of(calls, limits.block_tokens, **more), replicas, by, limits, SPEED)


def test_one_request_takes_a_step_for_its_prompt_and_one_for_every_further_token() -> None:
    [job] = sent(Call(2.0, (Part(50),), 3)).jobs
    assert job.first == pytest.approx(2.0 + 0.060)
    assert job.last == pytest.approx(2.0 + 0.060 + 2 * 0.012)


def test_a_long_prompt_goes_in_steps_and_answers_go_on_beside_it() -> None:
    first, second = sent(Call(0.0, (Part(20),), 4), Call(0.001, (Part(150),), 1)).jobs
    assert first.first == pytest.approx(0.030)
    assert second.first == pytest.approx(0.030 + (0.010 + 0.002 + 0.099) + (0.010 + 0.002 + 0.051))
    assert first.last == pytest.approx((second.first or 0) + 0.012)


def test_no_more_requests_at_a_time_than_there_is_room_for() -> None:
    outcome = sent(*(Call(0.0, (Part(5),), 2) for _ in range(6)))
    firsts = sorted({round(job.first or 0, 4) for job in outcome.jobs})
    assert len(firsts) == 2
    assert sum(job.first == outcome.jobs[0].first for job in outcome.jobs) == 4


def test_a_known_beginning_is_not_computed_again() -> None:
    first, second = sent(Call(0.0, (Part(60, "a"), Part(5)), 1), Call(5.0, (Part(60, "a"), Part(5)), 1)).jobs
    assert (first.hit_tokens, second.hit_tokens) == (0, 60)
    assert second.first == pytest.approx(5.0 + 0.010 + 0.005)


def test_a_prompt_that_is_known_whole_computes_its_last_block_again() -> None:
    outcome = sent(Call(0.0, (Part(60, "a"),), 1), Call(5.0, (Part(60, "a"),), 1))
    assert outcome.jobs[1].hit_tokens == 50
    assert outcome.hit_rate == pytest.approx(50 / 120)


def test_so_many_clients_send_the_next_request_when_one_is_answered() -> None:
    outcome = sent(*(Call(0.0, (Part(5),), 1) for _ in range(3)), clients=1)
    assert [job.arrived for job in outcome.jobs] == pytest.approx([0.0, 0.015, 0.030])
    assert outcome.requests_per_second == pytest.approx(3 / 0.045)


def test_replicas_work_side_by_side() -> None:
    calls = [Call(0.0, (Part(100),), 1) for _ in range(8)]
    assert sent(*calls, replicas=2).seconds == pytest.approx(sent(*calls).seconds / 2)


def test_prefixes_that_do_not_fit_together_fit_apart() -> None:
    load = Load("MP", 200, 10, 2, 0.0, 8, "text", 4, 160, 3)
    limits = Limits(block_tokens=10, blocks=130, requests=4, step_tokens=400)
    told = {by: sent(*calls_of(load, 20.0), replicas=2, by=by, limits=limits) for by in ("round-robin", "cache-aware")}
    assert told["cache-aware"].hit_rate > told["round-robin"].hit_rate + 0.2
    assert not told["round-robin"].roomy


def test_one_prefix_for_all_is_no_work_for_a_router_that_knows_no_load() -> None:
    calls = [Call(0.0, (Part(60, "a"), Part(30)), 5) for _ in range(80)]
    told = {by: sent(*calls, replicas=4, by=by) for by in ("round-robin", "prefix-aware", "least-loaded")}
    assert told["prefix-aware"].to_dict()["busiest_share"] == 1
    assert told["round-robin"].to_dict()["busiest_share"] == 0.25
    assert told["prefix-aware"].seconds > 3 * told["round-robin"].seconds
    assert told["least-loaded"].seconds == told["round-robin"].seconds


def test_a_cache_beyond_all_measure_takes_no_memory_and_changes_nothing() -> None:
    calls = [Call(0.1 * number, (Part(60, f"p{number % 3}"), Part(25)), 9) for number in range(30)]
    outcomes = [sent(*calls, limits=replace(LIMITS, blocks=blocks)).to_dict() for blocks in (100_000, 1 << 40)]
    assert outcomes[0] == outcomes[1]


def test_a_request_that_never_fits_is_refused() -> None:
    call = Call(0.0, (Part(10_000),), 1)
    with pytest.raises(UsageError, match="a request takes 10001 tokens, and the cache has room for 10000") as caught:
        sent(call)
    assert str(caught.value.diagnostics[0].help).startswith("Give it 10020 or more with `--cache-tokens`")
    sent(call, limits=replace(LIMITS, blocks=1002))


def test_more_blocks_than_there_could_be_memory_for_are_refused() -> None:
    with pytest.raises(UsageError, match="40 requests of 400,000,040 tokens are too many to be simulated") as caught:
        Traffic.of([Call(0.0, (Part(10_000_000),), 1)] * 40, 16)
    assert "at most 20,000,000 blocks of 16 tokens" in caught.value.diagnostics[0].message


def test_without_simpy_it_is_told_where_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "simpy", None)
    with pytest.raises(ServeError, match="needs the Python package `simpy`"):
        sent(Call(0.0, (Part(5),), 1))


def test_what_a_boundless_cache_would_know() -> None:
    traffic = Traffic.of([Call(0.0, (Part(60, "a"), Part(40)), 1) for _ in range(4)], 10)
    assert traffic.shared == pytest.approx(3 * 60 / 400)


def test_figures_of_an_outcome() -> None:
    told = sent(Call(0.0, (Part(50),), 3), Call(0.0, (Part(50),), 1)).to_dict()
    assert told["ttft_ms"] == {"mean": 110, "median": 110, "p99": 110}
    assert told["tpot_ms"] == 12
    assert (told["requests_per_second"], told["seconds"], told["busy"]) == (
        pytest.approx(2 / 0.134, abs=1e-3),
        0.134,
        [1],
    )


def test_a_median_of_an_even_number_lies_in_the_middle() -> None:
    calls = [Call(10.0 * number, (Part(tokens),), 1) for number, tokens in enumerate((10, 20, 40, 80))]
    assert sent(*calls).to_dict()["ttft_ms"]["median"] == pytest.approx(40)
