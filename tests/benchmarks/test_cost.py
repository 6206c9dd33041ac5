"""What the servers of the cost bench are started with, and what they are asked."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from benchmarks.engine.cost import GROUPS, Plan, graph_words
from benchmarks.engine.loads import Load


@pytest.mark.parametrize(("tokens", "largest"), [(4096, "4096"), (100, "64"), (1, "1")])
def test_graphs_are_captured_for_doubling_sizes(tokens: int, largest: str) -> None:
    flag, *sizes = graph_words(tokens)
    assert flag == "--cudagraph-capture-sizes"
    assert (sizes[0], sizes[-1]) == ("1", largest)
    assert all(int(one) * 2 == int(next_) for one, next_ in pairwise(sizes))


def test_every_group_is_compared_with_plain_vllm() -> None:
    for group in GROUPS.values():
        base = group.arms[group.base]
        assert not base.rows
        assert not group.servers[base.server].rows
        assert {arm.server for arm in group.arms.values()} == set(group.servers)


def test_a_load_may_be_a_row_of_the_models_published_table() -> None:
    [own, published] = Plan("plain", ["P1024_h94_c64", "DECV_c64"]).chosen()
    assert own.prompts == 1536, "the group's own goes before the published one"
    assert (published.prompts, published.ratio, published.concurrency) == (512, 0.5, 64)
    with pytest.raises(ValueError, match="no load P256_h0_c32; loads: "):
        Plan("plain", ["P256_h0_c32"]).chosen()
    [other] = Plan("plain", ["P256_h0_c32"], model="minicpm-o-4-5").chosen()
    assert (other.shared, other.own, other.concurrency) == (0, 256, 32)


def test_arms_can_be_left_out_of_a_load_but_for_the_groups_plain_vllm() -> None:
    plan = Plan("both", ["MP32_c64=text", "P4096_h0_c64=rows,off", "DECV_c32"])
    arms = {load.name: plan.arms_of(load) for load in plan.chosen()}
    assert arms == {
        "MP32_c64": ["plain", "text"],
        "P4096_h0_c64": ["plain", "off", "rows"],
        "DECV_c32": ["plain", "off", "rows", "text"],
    }
    wrong = Plan("both", ["MP32_c64=on"])
    with pytest.raises(ValueError, match="no arm on; arms: plain, off, rows, text"):
        wrong.arms_of(wrong.chosen()[0])


def test_requests_share_a_loads_prefixes_and_vary_in_length() -> None:
    load = Load("ANY", 8, 100, 50, 40, prefixes=4, ratio=0.5)
    bodies = [json.loads(body) for body in load.bodies("seed", rows=False, vocabulary=1000)]
    assert len(bodies) == 41, "one to fill the cache with"
    assert len({tuple(body["prompt"][:8]) for body in bodies}) == 4
    assert all(50 <= len(body["prompt"]) - 8 <= 150 for body in bodies)
    assert all(25 <= body["max_tokens"] <= 75 for body in bodies)
    assert len({len(body["prompt"]) for body in bodies}) > 10
    assert load.bodies("seed", rows=False, vocabulary=1000) == load.bodies("seed", rows=False, vocabulary=1000)
