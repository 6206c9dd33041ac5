"""Blocks of the KV cache: what is in them, and a pool of them with vLLM's rules for what is kept and what goes.

After ``vllm/v1/core/block_pool.py`` and ``kv_cache_manager.py`` of vLLM 0.32: only full blocks are ever found again; a
block in use stays; a free one keeps its content until it is taken for something else, the least recently freed first,
of one request the last block first, and those without a content that can be found before all others.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from omnicfg.bench.simulation.trace import Call

Contents = tuple[int, ...]
"""A number for each full block of a prompt and its answer. Equal numbers: equal tokens, and equal ones before them."""


class Naming:
    """What the blocks of calls hold, told apart by their tokens and all tokens before them, as vLLM's hashes do."""

    def __init__(self, block_tokens: int) -> None:
        self._size = block_tokens
        self._numbers: dict[tuple[object, ...], int] = {}
        self._own = 0

    def of(self, call: Call) -> Contents:
        """The contents of a call's blocks, those of its answer included, as far as they become full."""
        numbers: list[int] = []
        before, room = -1, self._size
        pieces: list[tuple[object, int, int]] = []
        for part in call.parts:
            self._own += 1
            name: object = part.name if part.name is not None else self._own
            start = 0
            while start < part.tokens:
                stop = min(part.tokens, start + room)
                pieces.append((name, start, stop))
                room -= stop - start
                start = stop
                if not room:
                    before = self._numbers.setdefault((before, *pieces), len(self._numbers))
                    numbers.append(before)
                    pieces, room = [], self._size
        return tuple(numbers)


class Pool:
    """``size`` blocks. Without ``caching``, contents are forgotten at once."""

    def __init__(self, size: int, caching: bool = True) -> None:
        self._caching = caching
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(size))
        self._uses = [0] * size
        self._content: list[int | None] = [None] * size
        self._holders: dict[int, OrderedDict[int, None]] = {}
        self.evicted = 0
        """Contents that went since the beginning, because their blocks were taken for others."""

    @property
    def free(self) -> int:
        return len(self._free)

    def found(self, contents: Sequence[int]) -> list[int]:
        """The blocks that hold the longest known run of contents from the first one on."""
        blocks: list[int] = []
        for content in contents:
            holders = self._holders.get(content)
            if holders is None:
                break
            blocks.append(next(iter(holders)))
        return blocks

    def idle(self, blocks: Iterable[int]) -> int:
        """How many of these blocks nobody uses."""
        return sum(not self._uses[block] for block in blocks)

    def use(self, blocks: Iterable[int]) -> None:
        """One more user for each of them."""
        for block in blocks:
            if not self._uses[block]:
                del self._free[block]
            self._uses[block] += 1

    def take(self, count: int) -> list[int]:
        """``count`` free blocks for something new; there have to be so many."""
        blocks = [self._free.popitem(last=False)[0] for _ in range(count)]
        for block in blocks:
            self._forget(block)
            self._uses[block] = 1
        return blocks

    def fill(self, block: int, content: int) -> None:
        """A block is full from now on, and can be found by its content."""
        if self._caching and self._content[block] is None:
            self._content[block] = content
            self._holders.setdefault(content, OrderedDict())[block] = None

    def release(self, blocks: Sequence[int]) -> None:
        """The blocks of one user, in their order: it needs them no longer."""
        nameless = []
        for block in reversed(blocks):
            self._uses[block] -= 1
            if self._uses[block]:
                continue
            self._free[block] = None
            if self._content[block] is None:
                nameless.append(block)
        for block in reversed(nameless):
            self._free.move_to_end(block, last=False)

    def _forget(self, block: int) -> None:
        content = self._content[block]
        if content is None:
            return
        self._content[block] = None
        holders = self._holders[content]
        del holders[block]
        self.evicted += 1
        if not holders:
            del self._holders[content]
