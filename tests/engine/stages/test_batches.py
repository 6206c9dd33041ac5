"""As many requests at once as a share of the memory has room for."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="comes with the extra cpu or cuda")

from omnicfg.engine.stages import _batches


@pytest.mark.parametrize(("requests", "batch"), [(1, 1), (2, 2), (3, 4), (8, 8), (33, 64)])
def test_a_batch_is_a_power_of_two(requests: int, batch: int) -> None:
    assert _batches.bucket(requests) == batch


@pytest.mark.parametrize(
    ("room", "batch"),
    [
        (10**9, 64),  # no more than are asked for
        (2 * (100 + 63 * 10), 64),
        (2 * (100 + 63 * 10) - 1, 32),  # the graphs, and as much again
        (2 * (100 + 3 * 10), 4),
        (50, 1),  # somebody has to be served
        (-50, 1),
    ],
)
def test_the_room_decides(room: int, batch: int) -> None:
    assert _batches.largest(60, room, one=100, two=110) == batch


def test_requests_that_need_nothing_of_their_own() -> None:
    assert _batches.largest(8, room=500, one=200, two=200) == 8
