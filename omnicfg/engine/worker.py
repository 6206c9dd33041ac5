"""One stage behind the Thinker as a process: ``python -m omnicfg.engine.worker``, its job as JSON on standard input.

Rows come in from the stage before and go out to the next one through ``omnicfg.engine.transport`` (shared memory, one
consumer); what the front has to say comes over a socket, one JSON object a line, and so does what it is told:

* to the stage: ``open`` {key, options}, ``text`` {key, ids, prompt, last}, ``credit`` {key, frames}, ``drop`` {key};
* from it: ``ready`` {facts} when it is connected to the stage before, ``cut`` when it no longer is, ``opened`` {key},
  ``refused`` {key, message}, ``failed`` {key, message}, ``untaken`` {key} where nobody takes what it hands on, ``kept``
  {key, rows} at the end of a request that was opened with this stage as the option ``keep``, and every second ``beat``
  {steps, frames, open}, from between two steps: a stage that hangs falls silent.

A step that fails takes down the requests that it was for, and nothing else. The process ends with its front, and where
it cannot hear any more what comes: it is started again then.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import queue
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from omnicfg.engine.shards import connect
from omnicfg.engine.stages import Chunk, Ended, Executor, RequestError, StageOptions, make
from omnicfg.engine.stop_signals import ignore as ignore_stop_signals
from omnicfg.engine.transport import Message, Receiver, RowLayout, Rows, RowSender, TransportError, rows_message

_BEAT_S: Final = 1.0
_CONNECT_S: Final = 600.0
_RING_LEAST: Final = 2**20
_STALL_S: Final = 60.0
_RETRY_S: Final = 0.1
_PR_SET_PDEATHSIG: Final = 1
_NUMPY: Final = {"bfloat16": "uint16"}
"""What numpy calls a dtype that it does not have: the same bits."""


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker does: an executor of ``kind``, rows in at one socket, out at another, its front at a third."""

    stage: int
    name: str
    kind: str
    options: StageOptions
    rows_in: str
    rows_out: str
    control: str

    def to_json(self) -> str:
        """The form that travels to the process."""
        return json.dumps({**asdict(self), "options": {**asdict(self.options), "model": str(self.options.model)}})

    @classmethod
    def from_json(cls, text: str) -> Job:
        """From what :meth:`to_json` gives."""
        fields = json.loads(text)
        options = fields.pop("options")
        return cls(options=StageOptions(**{**options, "model": Path(options["model"])}), **fields)


def main() -> int:
    """The process; ends with status 0 when its front does. Stop signals are that one's."""
    ignore_stop_signals()
    _die_with_parent()
    job = Job.from_json(sys.stdin.read())
    if job.options.threads:
        import torch

        torch.set_num_threads(job.options.threads)
    if job.options.dtype == "float32":
        import torch

        torch.backends.cudnn.allow_tf32 = False  # ten bits of a sample would be lost to convolutions
    Worker(job, make(job.kind, job.options)).run()
    return 0


class Worker:
    """Runs an executor: takes in what comes, computes, hands on. :meth:`run` returns when the front has gone, and when
    what comes cannot be followed any more.
    """

    def __init__(self, job: Job, executor: Executor) -> None:
        self._job = job
        self._executor = executor
        self._inbox: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._kept: dict[str, list[list[int]]] = {}
        self._steps = self._frames = 0
        self._hears = False  # the stage before
        self._last_beat = 0.0
        # Room for all that may be under way, so that no request waits for another one's client.
        rows = job.options.limit * job.options.window * executor.frame_rows
        capacity = max(_RING_LEAST, 2 * rows * executor.layout.token_bytes)
        self._sender = RowSender(Path(job.rows_out), executor.layout, capacity, stall_seconds=_STALL_S)
        self._front = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)

    def run(self) -> None:
        """Connect both ends, then work until the front goes."""
        try:
            self._front.connect(self._job.control)
            self._start(self._follow_front)
            self._start(self._follow_rows)
            self._work()
        finally:
            self._front.close()
            self._sender.close()

    def _work(self) -> None:
        while self._take_in():
            keys = self._executor.ready()
            if keys:
                self._step(keys)
            self._beat()

    def _take_in(self) -> bool:
        """Everything that has come; waits where there is nothing to compute. False when no more can come."""
        try:
            task = self._inbox.get_nowait() if self._executor.ready() else self._inbox.get(timeout=_BEAT_S)
            while True:
                if task is None:
                    return False
                task()
                task = self._inbox.get_nowait()
        except queue.Empty:
            return True

    def _step(self, keys: Sequence[str]) -> None:
        try:
            chunks, ended = self._executor.run(keys)
        except Exception as error:  # noqa: BLE001 - whatever it is, only these requests have to go
            for key in keys:
                self._executor.drop(key)
                self._tell("failed", key=key, message=self._reason(error))
            return
        self._steps += 1
        self._frames += sum(len(chunk.rows) for chunk in chunks) // self._executor.frame_rows
        self._keep(chunks, ended)
        if not self._hand_on(chunks, ended):
            for key in {*(chunk.key for chunk in chunks), *(end.key for end in ended)}:
                self._executor.drop(key)
                self._tell("untaken", key=key)

    def _keep(self, chunks: Sequence[Chunk], ended: Sequence[Ended]) -> None:
        for chunk in chunks:
            if chunk.key in self._kept:
                self._kept[chunk.key] += chunk.rows.reshape(len(chunk.rows), -1).tolist()
        for end in ended:
            if end.key in self._kept:
                self._tell("kept", key=end.key, rows=self._kept.pop(end.key))

    def _hand_on(self, chunks: Sequence[Chunk], ended: Sequence[Ended]) -> bool:
        """Chunks and ends in one message; whether somebody takes them."""
        finished = [(end.key, end.key, end.rows, f"{end.reason} {end.frames}") for end in ended]
        if not chunks:
            return not finished or self._sender.publish(rows_message((), finished))
        slot = self._sender.reserve(sum(chunk.rows.nbytes for chunk in chunks))
        if slot is None:
            return False
        place = slot.offset
        for chunk in chunks:
            data = chunk.rows.tobytes()
            self._sender.buffer[place : place + len(data)] = data
            place += len(data)
        described = [(chunk.key, chunk.key, chunk.start, len(chunk.rows)) for chunk in chunks]
        return self._sender.publish(rows_message(described, finished), slot)

    def _reason(self, error: Exception) -> str:
        if isinstance(error, RequestError):
            return str(error)
        if _is_out_of_memory(error):
            return f"{self._shown} ran out of memory"
        return f"{self._shown} failed: {type(error).__name__}: {error}"

    @property
    def _shown(self) -> str:
        return f"stage {self._job.stage} ({self._job.name})"

    # ------------------------------------------------------------------------------------------------------ what comes

    def _follow_front(self) -> None:
        with contextlib.suppress(OSError), self._front.makefile("r", encoding="utf-8") as lines:
            for line in lines:
                if not line.endswith("\n"):  # of a front that died while it wrote
                    return
                self._inbox.put(partial(self._obey, json.loads(line)))

    def _obey(self, message: Mapping[str, Any]) -> None:
        key, executor = message["key"], self._executor
        try:
            match message["do"]:
                case "open" if not self._hears:  # what is handed on before it is back would be lost
                    self._tell("failed", key=key, message=f"{self._shown} cannot hear the stage before it at present")
                case "open":
                    executor.open(key, message["options"])
                    if message["options"].get("keep") == self._job.stage:
                        self._kept[key] = []
                    self._tell("opened", key=key)
                case "text":
                    executor.text(key, message["ids"], prompt=message["prompt"], last=message["last"])
                case "credit":
                    executor.credit(key, message["frames"])
                case "drop":
                    self._kept.pop(key, None)
                    executor.drop(key)
        except RequestError as error:
            executor.drop(key)
            self._tell("refused" if message["do"] == "open" else "failed", key=key, message=str(error))

    def _follow_rows(self) -> None:
        """Rows of the stage before, again from a new process where that one has died."""
        while True:
            try:
                receiver = self._connected()
            except (TransportError, OSError):
                time.sleep(_RETRY_S)
                continue
            self._inbox.put(self._ready)
            with receiver:
                while (messages := receiver.receive()) is not None:
                    for message in messages:
                        self._inbox.put(self._delivery(message, receiver.layout))
            self._inbox.put(self._cut)

    def _ready(self) -> None:
        self._hears = True
        self._tell("ready", facts=self._executor.facts())

    def _cut(self) -> None:
        self._hears = False
        self._executor.rows_cut()
        self._tell("cut")

    def _connected(self) -> Receiver:
        """Through the memory of a GPU where both ends have one and this process can map the other's."""
        path = Path(self._job.rows_in)
        if self._job.options.device.startswith("cuda"):
            from omnicfg.engine.device_ring import MappedRing

            try:
                receiver = connect(path, timeout=_CONNECT_S, mapped=MappedRing)
                if receiver.on_gpu:
                    print(f"stage {self._job.stage}: rows come through the memory of a GPU", file=sys.stderr)
                return receiver
            except TransportError:  # nobody is there, whichever way
                raise
            except RuntimeError as error:
                print(f"stage {self._job.stage}: rows come through the host's memory: {error}", file=sys.stderr)
        return connect(path, timeout=_CONNECT_S)

    def _delivery(self, message: Message, layout: RowLayout) -> Callable[[], None]:
        """What the executor is to do with a message; its rows are copied, since the ring's room is given back."""
        key = message.key or message.request
        if isinstance(message, Rows):
            rows, start, media = _array(message.data, layout), message.start, message.media

            def deliver() -> None:
                if media:
                    self._executor.media(key, media)
                self._executor.rows(key, start, rows)

            return deliver
        tokens = message.tokens
        return lambda: self._executor.rows_end(key, tokens)

    # ------------------------------------------------------------------------------------------------------- what goes

    def _beat(self) -> None:
        now = time.monotonic()
        if now - self._last_beat >= _BEAT_S:
            self._last_beat = now
            self._tell("beat", steps=self._steps, frames=self._frames, open=self._executor.open_requests())

    def _tell(self, what: str, **more: Any) -> None:
        line = json.dumps({"event": what, "stage": self._job.stage, **more}) + "\n"
        with contextlib.suppress(OSError):  # the front has gone, as the inbox will say
            self._front.sendall(line.encode())

    def _start(self, target: Callable[[], None]) -> None:
        """Have a thread follow what comes, and the work end with it, however it ends: requests would wait for ever."""

        def follow() -> None:
            try:
                target()
            finally:
                self._inbox.put(None)

        threading.Thread(target=follow, name=target.__name__, daemon=True).start()


def _is_out_of_memory(error: Exception) -> bool:
    """Of the host's memory torch says so in words alone (``DefaultCPUAllocator: can't allocate memory``)."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)


def _array(data: Any, layout: RowLayout) -> Any:
    """``[count, names, width]``: an array of its own, or the tensor that a GPU's ring gave."""
    if not isinstance(data, memoryview):
        import torch

        return data.view(getattr(torch, layout.dtype)).view(-1, len(layout.names), layout.width)
    import numpy as np

    flat = np.frombuffer(bytes(data), dtype=_NUMPY.get(layout.dtype, layout.dtype))
    return flat.reshape(-1, len(layout.names), layout.width)


def _die_with_parent() -> None:
    """Linux ends this process when the one that started it has died, however that came about."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))


if __name__ == "__main__":
    sys.exit(main())
