"""The replica with the fewest requests in flight; where several have, in turn.

As vLLM's own data parallelism chooses (``DPLBAsyncMPClient`` of ``vllm/v1/engine/core_client.py``, 0.32, short of its
penalty for queues on full caches).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

SETTINGS: Final = (
    "vLLM: `data_parallel_size: {replicas}` of the stage (`--data-parallel-size {replicas}`), one server for all",
    "vLLM-Omni: `num_replicas: {replicas}` of the stage, and `--omni-lb-policy least-queue-length`",
)


class _Choice:
    def __init__(self, replicas: int) -> None:
        self._first = 0
        self._replicas = replicas

    def choose(self, contents: Sequence[int], in_flight: Sequence[int]) -> int:  # noqa: ARG002  # it knows no caches
        order = [(self._first + offset) % self._replicas for offset in range(self._replicas)]
        self._first = (self._first + 1) % self._replicas
        return min(order, key=lambda replica: in_flight[replica])


def start(replicas: int) -> _Choice:
    """A router that has seen no request yet."""
    return _Choice(replicas)
