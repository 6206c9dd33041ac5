"""The positions of a prompt's tokens on three axes, in numbers; that they are transformers' is told by test_media."""

from __future__ import annotations

import pytest

from omnicfg.engine.stages._positions import Grid, grids_of, positions_of
from omnicfg.engine.transport import Media


def test_text_counts_alike_on_all_axes() -> None:
    assert positions_of([4, 5, 9], {}) == ([(0, 0, 0), (1, 1, 1), (2, 2, 2)], 3)


def test_a_picture_counts_rows_and_columns_and_what_follows_goes_on_from_the_longest() -> None:
    positions, following = positions_of(range(8), {1: Grid(1, 2, 3, 13)})
    picture = [(1, 1, 1), (1, 1, 2), (1, 1, 3), (1, 2, 1), (1, 2, 2), (1, 2, 3)]
    assert positions == [(0, 0, 0), *picture, (4, 4, 4)]
    assert following == 5


def test_a_videos_frames_follow_each_other_in_time() -> None:
    positions, following = positions_of(range(4), {0: Grid(2, 1, 2, 26)})
    assert positions == [(0, 0, 0), (0, 0, 1), (26, 0, 0), (26, 0, 1)]
    assert following == 27


def test_only_what_is_read_counts() -> None:
    """A picture in the system's turn, of which the Talker reads nothing, or only the second half of one."""
    grids = {1: Grid(1, 2, 2, 13), 10: Grid(1, 1, 2, 13)}
    assert positions_of([3, 4, 9, 10, 11], grids)[0] == [(0, 0, 0), (1, 1, 1), (2, 2, 2), (3, 3, 3), (3, 3, 4)]


def test_grids_are_what_the_processor_told() -> None:
    media = [
        Media("image", 3, 15, {"grid": [1.0, 6.0, 10.0]}),
        Media("audio", 20, 13, {}),
        Media("video", 40, 8, {"grid": [2.0, 4.0, 4.0], "seconds": [0.5]}),
    ]
    assert grids_of(media, merged=2, per_second=13) == {3: Grid(1, 3, 5, 26), 40: Grid(2, 2, 2, 6.5)}


@pytest.mark.parametrize(("measures", "told"), [({}, "not known"), ({"grid": [1, 8, 8]}, "15 tokens stand for media")])
def test_a_picture_of_another_size_is_no_guess(measures: dict[str, list[float]], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        grids_of([Media("image", 3, 15, measures)], merged=2, per_second=13)
