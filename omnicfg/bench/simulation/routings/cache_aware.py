"""Where the longest beginning of the prompt has been sent before, unless too little matches or that would be unfair.

As vLLM Router's ``cache_aware`` chooses (``src/policies/cache_aware.rs`` of vllm-project/router, 0.1.16): the least
busy replica where the busiest has both 64 requests more than it and 1.5 times as many; else the one that saw the
longest beginning, where that is more than 0.3 of the prompt; else the one that saw least.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_MATCH: Final = 0.3
_MORE: Final = 64
_TIMES: Final = 1.5
SETTINGS: Final = (
    (
        f"vLLM Router: `--policy cache_aware --cache-threshold {_MATCH} --balance-abs-threshold {_MORE} "
        f"--balance-rel-threshold {_TIMES} --worker-urls {{workers}}` (its defaults), each worker a server with "
        "`num_replicas: 1`"
    ),
    (
        "routers that follow what the caches hold need `--kv-events-config "
        """'{{"enable_kv_cache_events": true, "publisher": "zmq"}}'` in every server"""
    ),
)


class _Choice:
    def __init__(self, replicas: int) -> None:
        self._seen: list[set[int]] = [set() for _ in range(replicas)]

    def choose(self, contents: Sequence[int], in_flight: Sequence[int]) -> int:
        least, most = min(in_flight), max(in_flight)
        if most - least > _MORE and most > least * _TIMES:
            replica = in_flight.index(least)
        else:
            matches = [self._match(seen, contents) for seen in self._seen]
            best = max(matches)
            if best > _MATCH * len(contents):
                replica = matches.index(best)
            else:
                sizes = [len(seen) for seen in self._seen]
                replica = sizes.index(min(sizes))
        self._seen[replica].update(contents)
        return replica

    @staticmethod
    def _match(seen: set[int], contents: Sequence[int]) -> int:
        """How many of the contents, from the first one on, have been sent there."""
        return next((place for place, content in enumerate(contents) if content not in seen), len(contents))


def start(replicas: int) -> _Choice:
    """A router that has seen no request yet."""
    return _Choice(replicas)
