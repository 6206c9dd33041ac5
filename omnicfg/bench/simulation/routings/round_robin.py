"""One replica after the other, whatever they hold."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

SETTINGS: Final = (
    "vLLM-Omni: `num_replicas: {replicas}` of the stage, and `--omni-lb-policy round-robin` (else it is random)",
    "production stack: `--routing-logic roundrobin --service-discovery static --static-backends {urls}`",
    "vLLM Router: `--policy round_robin --worker-urls {workers}`",
)


class _Choice:
    def __init__(self, replicas: int) -> None:
        self._turns = itertools.cycle(range(replicas))

    def choose(self, contents: Sequence[int], in_flight: Sequence[int]) -> int:  # noqa: ARG002  # it looks at neither
        return next(self._turns)


def start(replicas: int) -> _Choice:
    """A router that begins with the first replica."""
    return _Choice(replicas)
