"""Rows that several tensor-parallel ranks keep a part of each: one ring a rank, put together by the consumer.

Every rank orders the same copies in the same steps, so their messages have the same numbers. What only some of them
have sent to this consumer, because it came while they were at work, counts as not sent.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from omnicfg.engine.spec import shard_path
from omnicfg.engine.transport import MappedRing, Message, Receiver, RowReceiver, Rows, TransportError


def connect(path: Path, timeout: float = 30.0, mapped: Callable[[bytes], MappedRing] | None = None) -> Receiver:
    """A consumer of the engine that listens at ``path``, whether one rank offers whole rows there or several offer
    parts. Arguments and errors are those of :class:`RowReceiver`.
    """
    with ExitStack() as stack:
        first = stack.enter_context(RowReceiver(path, timeout, mapped))
        paths = [Path(shard_path(str(path), rank)) for rank in range(1, first.shards)]
        others = [stack.enter_context(RowReceiver(one, timeout, mapped)) for one in paths]
        receiver = ShardedReceiver([first, *others]) if others else first
        stack.pop_all()
    return receiver


class ShardedReceiver(Receiver):
    """One consumer of several rings.

    Raises :class:`TransportError` where they do not carry the same rows.
    """

    def __init__(self, shards: Sequence[RowReceiver]) -> None:
        self._shards = shards
        self._heads: list[list[Message] | None] = [None] * len(shards)
        layout = shards[0].layout
        if any(shard.layout != layout for shard in shards):
            raise TransportError(f"the ranks at {len(shards)} sockets keep different rows")
        self.layout = replace(layout, width=layout.width * len(shards))
        self._memory, self._used = bytearray(), 0  # of whole rows, until the next message is asked for

    def receive(self, timeout: float | None = None) -> list[Message] | None:
        deadline = None if timeout is None else time.monotonic() + timeout
        while behind := self._behind():
            received = {rank: self._shards[rank].receive(0) for rank in behind}
            if None in received.values():
                return None
            self._heads = [received.get(rank) or head for rank, head in enumerate(self._heads)]
            if not any(received.values()) and not self._wait(behind, deadline):
                return []
        heads = [head for head in self._heads if head is not None]
        self._heads, self._used = [None] * len(self._shards), 0
        return [self._whole(parts) for parts in zip(*heads, strict=True)]

    def close(self) -> None:
        for shard in self._shards:
            shard.close()

    @property
    def on_gpu(self) -> bool:
        return self._shards[0].on_gpu

    def _behind(self) -> list[int]:
        """The ranks whose next message is missing: they have sent none, or one that not all others have."""
        numbers = [-1 if head is None else shard.number for head, shard in zip(self._heads, self._shards, strict=True)]
        newest = max(numbers)
        self._heads = [head if number == newest else None for head, number in zip(self._heads, numbers, strict=True)]
        return [rank for rank, head in enumerate(self._heads) if head is None]

    def _wait(self, ranks: Sequence[int], deadline: float | None) -> bool:
        """Until one of these ranks has sent something, or is gone; false where that did not happen in time."""
        left = None if deadline is None else 1000 * max(0.0, deadline - time.monotonic())
        poll = select.poll()
        for rank in ranks:
            poll.register(self._shards[rank], select.POLLIN)
        return bool(poll.poll(left))

    def _whole(self, parts: Sequence[Message]) -> Message:
        first = parts[0]
        if not isinstance(first, Rows):
            return first
        count = first.count * len(self.layout.names)
        data = [part.data for part in parts if isinstance(part, Rows)]
        join = self._side_by_side if (mapped := self._shards[0].mapped) is None else mapped.side_by_side
        return replace(first, data=join(data, count))

    def _side_by_side(self, parts: Sequence[memoryview], rows: int) -> memoryview:
        """Parts of ``rows`` rows, put together row by row; valid for as long as the parts are.

        The same memory is used every time: to clear fresh memory takes the kernel longer than to copy.
        """
        import numpy as np

        size, begin = sum(map(len, parts)), self._used
        self._used += size
        if len(self._memory) < self._used:
            self._memory, begin, self._used = bytearray(2 * self._used), 0, size
        data = memoryview(self._memory)[begin : begin + size]
        whole = np.frombuffer(data, dtype=np.uint8).reshape(rows, len(parts), -1)
        for index, part in enumerate(parts):
            whole[:, index] = np.frombuffer(part, dtype=np.uint8).reshape(rows, -1)
        return data
