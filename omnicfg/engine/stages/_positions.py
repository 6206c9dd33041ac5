"""Where the tokens of a prompt stand for a decoder with M-RoPE: three axes, of which pictures use more than one.

As ``get_rope_index`` of Qwen3-Omni's classes in transformers has it: text and sounds count one position for each token,
on all axes alike. A picture's tokens share one position in time and count rows and columns; a video's grids follow each
other in time. What comes next counts on from the greatest position so far.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from omnicfg.engine.transport import Media

Position = tuple[float, float, float]
"""Time, row, column."""

_DEFAULT_SECONDS = 2.0
"""Between two grids of a video, where its processor does not say: two frames, one second each."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Tokens in ``frames`` of ``rows`` by ``columns``; from frame to frame it is ``step`` positions."""

    frames: int
    rows: int
    columns: int
    step: float

    def __len__(self) -> int:
        return self.frames * self.rows * self.columns

    def positions(self, start: float) -> Iterator[Position]:
        """Every token's, from ``start`` on."""
        for frame in range(self.frames):
            for row in range(self.rows):
                for column in range(self.columns):
                    yield start + frame * self.step, start + row, start + column


def grids_of(media: Sequence[Media], merged: int, per_second: float) -> dict[int, Grid]:
    """The grids among a prompt's media, by the place of their first token.

    ``merged`` patches along each side of a square become one token; a second of video takes ``per_second`` positions.
    Raises :class:`ValueError` where the measures of one do not fit the tokens that stand for it.
    """
    grids: dict[int, Grid] = {}
    for one in media:
        if one.modality == "audio":
            continue
        if "grid" not in one.measures:
            raise ValueError(f"the size of the {one.modality} at token {one.start} is not known")
        frames, height, width = (int(number) for number in one.measures["grid"])
        seconds = one.measures.get("seconds", (_DEFAULT_SECONDS,))[0]
        grid = Grid(frames, height // merged, width // merged, seconds * per_second)
        if len(grid) != one.count:
            patches = f"{frames} times {height} by {width} patches"
            raise ValueError(f"{one.count} tokens stand for media ({one.modality}) of {patches}")
        grids[one.start] = grid
    return grids


def positions_of(places: Sequence[int], grids: Mapping[int, Grid]) -> tuple[list[Position], float]:
    """The positions of the prompt's tokens at ``places`` (ascending) as a prompt of their own, and of what follows.

    ``grids`` are told by places in the whole prompt; those of which ``places`` leave tokens out do not count.
    """
    positions: list[Position] = []
    following = 0.0
    number = 0
    while number < len(places):
        grid = grids.get(places[number])
        if grid is not None and _holds_all(places[number : number + len(grid)], len(grid)):
            positions += grid.positions(following)
            following = max(map(max, positions[number:])) + 1
        else:
            positions.append((following, following, following))
            following += 1
        number = len(positions)
    return positions, following


def _holds_all(places: Sequence[int], count: int) -> bool:
    """Whether ascending places are ``count`` in a row."""
    return len(places) == count and places[-1] - places[0] == count - 1
