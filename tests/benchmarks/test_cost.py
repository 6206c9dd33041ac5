"""What the servers of the cost bench are started with."""

from __future__ import annotations

from itertools import pairwise

import pytest

from benchmarks.engine.cost import GROUPS, graph_words


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
