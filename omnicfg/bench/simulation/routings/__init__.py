"""Who decides which replica a request goes to, one module each (``prefix-aware`` is ``prefix_aware.py``).

None of these is a router to be run: each follows a router that exists, whose settings it names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, cast

from omnicfg.errors import UsageError
from omnicfg.registry import module_spelt, spelt_names


class Choice(Protocol):
    """What a router knows while it runs."""

    def choose(self, contents: Sequence[int], in_flight: Sequence[int]) -> int:
        """The number of the replica for a request.

        ``contents`` are those of the full blocks of its prompt, ``in_flight`` says for every replica how many requests
        it has not answered.
        """


class Routing(Protocol):
    """What a routing's module offers: settings of routers that route so, as ``{replicas}`` and ``{urls}`` fill in."""

    SETTINGS: tuple[str, ...]

    def start(self, replicas: int) -> Choice:
        """A router that has seen no request yet."""


def names() -> tuple[str, ...]:
    """The routings' names as options spell them."""
    return spelt_names(__name__)


def routing(name: str) -> Routing:
    """The routing of that name. Raises :class:`UsageError`."""
    if name not in names():
        raise UsageError(f"no routing `{name}`", f"Routings: {', '.join(names())}.")
    return cast(Routing, module_spelt(__name__, name))
