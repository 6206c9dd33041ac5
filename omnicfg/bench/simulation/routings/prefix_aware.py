"""Where the longest beginning of the prompt has been sent before, however busy that replica is.

As the production stack's ``prefixaware`` chooses (``PrefixAwareRouter`` and ``HashTrie`` of its ``vllm_router``): it
remembers for good which replicas saw which beginnings, takes one of those that saw the longest, and knows neither load
nor what has gone from a cache. Its beginnings are of 128 characters, these of cache blocks.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

SETTINGS: Final = (
    (
        "production stack: `--routing-logic prefixaware --service-discovery static --static-backends {urls}`, each "
        "backend a server with `num_replicas: 1`"
    ),
    (
        "where caches are too small for what is shared, `--routing-logic kvaware --lmcache-controller-port PORT "
        "--kv-aware-threshold TOKENS` asks what they hold (LMCache in every server)"
    ),
)


class _Choice:
    def __init__(self, replicas: int) -> None:
        self._all = frozenset(range(replicas))
        self._seen: dict[int, set[int]] = {}
        self._source = random.Random(0)

    def choose(self, contents: Sequence[int], in_flight: Sequence[int]) -> int:  # noqa: ARG002  # it knows no load
        chosen = self._all
        for content in contents:
            matching = chosen & self._seen.get(content, set())
            if not matching:
                break
            chosen = matching
        replica = self._source.choice(sorted(chosen))
        for content in contents:
            self._seen.setdefault(content, set()).add(replica)
        return replica


def start(replicas: int) -> _Choice:
    """A router that has seen no request yet; what it leaves to chance is drawn from a fixed seed."""
    return _Choice(replicas)
