"""A process that takes every hidden state in and copies it out of the ring, as a later stage would."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from omnicfg.engine.shards import connect
from omnicfg.engine.transport import PayloadAssembler

if TYPE_CHECKING:
    from multiprocessing.sharedctypes import SynchronizedArray

WAIT_S: Final = 60.0
_POLL_S: Final = 0.0005  # the wait is part of what is measured
_COUNTS: Final = ("complete", "incomplete", "bytes")


class Consumer:
    """Counts what comes from the server whose socket it is given; a context manager."""

    def __init__(self, socket: Path) -> None:
        context = multiprocessing.get_context("spawn")
        self._counts: SynchronizedArray[int] = context.Array("q", len(_COUNTS))
        self._process = context.Process(target=_consume, args=(str(socket), self._counts), daemon=True)

    def counts(self) -> dict[str, int]:
        """Payloads and bytes so far."""
        return dict(zip(_COUNTS, self._counts[:], strict=True))

    def since(self, before: dict[str, int], payloads: int) -> dict[str, int]:
        """What has come since ``before``, as soon as that is so many ``payloads``, or after a minute."""
        deadline = time.monotonic() + WAIT_S
        while True:
            now = {name: value - before[name] for name, value in self.counts().items()}
            if now["complete"] + now["incomplete"] >= payloads or time.monotonic() > deadline:
                return now
            time.sleep(_POLL_S)

    def __enter__(self) -> Self:
        self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()


def _consume(socket: str, counts: SynchronizedArray[int]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's, which ends this process
    with contextlib.suppress(OSError), connect(Path(socket)) as receiver:
        assembler = PayloadAssembler(receiver.layout)
        for message in receiver:
            payload = assembler.add(message)
            if payload is not None:
                counts[2] += len(payload.data)
                counts[0 if payload.complete else 1] += 1
                assembler.recycle(payload)
