"""How many requests are computed at once on a GPU: as many as its share of the memory has room for."""

from __future__ import annotations

from collections.abc import Callable

import torch

_PARTS = 2
"""A graph's memory, and as much again: what is needed while the next one is captured, and lies between the pieces."""


def largest(limit: int, room: int, one: int, two: int) -> int:
    """The largest power of two not above the next one of ``limit`` for which ``room`` bytes are enough; at least 1.

    ``one`` and ``two`` are the bytes that one and two requests need at most; each further one needs the difference.
    """
    size = bucket(limit)
    while size > 1 and _PARTS * (one + (size - 1) * max(0, two - one)) > room:
        size //= 2
    return size


def bucket(requests: int) -> int:
    """The size of the batch that is computed for so many requests: the next power of two."""
    return 1 << (requests - 1).bit_length()


def needed(step: Callable[[int], object], requests: int) -> int:
    """The bytes that ``step(requests)`` takes of a GPU's memory at most while it runs, by torch's own count."""
    step(requests)  # a library's first call loads what it keeps
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = int(torch.cuda.memory_allocated())
    step(requests)
    torch.cuda.synchronize()
    return int(torch.cuda.max_memory_allocated()) - before


def room(share: float) -> int:
    """What is left to this process of ``share`` of its GPU's memory, in bytes, and of what is free there."""
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info()
    return min(int(share * total) - int(torch.cuda.memory_reserved()), int(free))
