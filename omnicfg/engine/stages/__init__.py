"""Stage executors: what computes a stage behind the Thinker, one module for each kind.

A model's record names the kind (``bundled.executor``) and says where its part of the checkpoint lies; nothing here
knows a model's name. ``omnicfg.engine.worker`` runs one executor in a process of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from omnicfg.engine.transport import Media, RowLayout
from omnicfg.registry import module_spelt, spelt_names

if TYPE_CHECKING:
    import numpy as np


DEFAULT_CHUNK: Final = 25
"""Frames in a chunk where no connector says how many: two seconds of a 12.5 Hz codec."""


class RequestError(ValueError):
    """A request that this stage cannot serve; the message is for the client."""


@dataclass(frozen=True, slots=True)
class StageOptions:
    """What an executor is made from.

    ``record`` is what the model's record says under ``bundled``, ``sampling`` the stage's default sampling parameters,
    ``engine_args`` what the plan says to an engine of vLLM. ``chunk`` are the frames that are handed on together, the
    first ``first_chunk`` sooner; ``context`` the frames kept in front of a chunk; ``window`` how many frames may be on
    their way to the client of one request.
    """

    model: Path
    record: Mapping[str, Any]
    limit: int = 8
    dtype: str = "float32"
    device: str = "cpu"
    threads: int | None = None
    async_chunk: bool = True
    sampling: Mapping[str, Any] = field(default_factory=dict)
    engine_args: Mapping[str, Any] = field(default_factory=dict)
    chunk: int = DEFAULT_CHUNK
    first_chunk: int = 4
    context: int = 25
    window: int = 100

    @property
    def dummy(self) -> bool:
        """Whether weights are drawn at random instead of read."""
        return self.engine_args.get("load_format") == "dummy"


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows of one request to hand on, from row ``start`` of all that it gets; ``rows`` has the layout's dtype."""

    key: str
    start: int
    rows: np.ndarray


@dataclass(frozen=True, slots=True)
class Ended:
    """No more rows follow for ``key``: ``rows`` were handed on in all, of ``frames`` frames."""

    key: str
    rows: int
    frames: int
    reason: str


class Executor(Protocol):
    """Computes one stage for several requests at once. For one thread.

    A request is opened, fed (by the text of the first stage, by rows of the stage before) and either ends by itself or
    is dropped. What is said about a request that is not open is ignored: it may have ended in the meantime.
    """

    layout: RowLayout
    frame_rows: int
    """Rows of a frame."""

    def facts(self) -> dict[str, Any]:
        """What the front has to know of this stage."""

    def open(self, key: str, options: Mapping[str, Any]) -> None:
        """Begin a request. Raises :class:`RequestError`."""

    def text(self, key: str, ids: Sequence[int], *, prompt: bool, last: bool) -> None:
        """The prompt's token ids, or generated ones; ``last`` with the end of the text."""

    def media(self, key: str, media: Sequence[Media]) -> None:
        """The pictures, sounds and videos of the prompt, before the first of its rows."""

    def rows(self, key: str, start: int, rows: Any) -> None:
        """Rows of the stage before: an array, or a tensor where they came through the memory of the executor's GPU."""

    def rows_end(self, key: str, count: int) -> None:
        """The stage before has handed on ``count`` rows, and no more follow."""

    def rows_cut(self) -> None:
        """The stage before cannot be heard for a while: rows of open requests, or their ends, may never come."""

    def credit(self, key: str, frames: int) -> None:
        """So many frames of the request have arrived at its client."""

    def drop(self, key: str) -> None:
        """Forget a request and free all it holds."""

    def open_requests(self) -> int:
        """How many requests are open."""

    def ready(self) -> list[str]:
        """The requests that the next :meth:`run` should be for; none where there is nothing to compute."""

    def run(self, keys: Sequence[str]) -> tuple[list[Chunk], list[Ended]]:
        """Compute one step for them. Where it raises, they can only be dropped."""


class _Kind(Protocol):
    def make(self, options: StageOptions) -> Executor: ...


def kinds() -> tuple[str, ...]:
    """The kinds of executors, as records spell them."""
    return spelt_names(__name__)


def make(kind: str, options: StageOptions) -> Executor:
    """The executor of that kind, its weights loaded. Raises :class:`ValueError` for an unknown kind."""
    if kind not in kinds():
        raise ValueError(f"there is no stage executor `{kind}`; there are {', '.join(kinds())}")
    return cast(_Kind, module_spelt(__name__, kind)).make(options)
