"""Rows from the engine's worker to one consumer process: a bounded ring in shared memory, messages over a socket.

The ring is an anonymous memory file that the producer hands over when a consumer connects, so nothing is left behind in
the file system but the socket. Rows are written once, straight into the ring (by the GPU's copy engine where there is
one), and a small JSON message says where they lie. The consumer answers with the position up to which it is done; the
kernel's sockets order the two sides, wake a sleeper, and tell at once when the other side died.

Back-pressure: a producer that finds no room, in the ring or in the socket, waits for the consumer, so a slow consumer
slows the engine down and memory stays bounded. One that does not move for ``stall_seconds`` is disconnected, and the
engine goes on without it. Without a consumer rows are dropped, and counted.

A consumer that is connected has been counted in: it is told so last, and whatever is published from then on reaches it.

A producer may be one of several ``shards``, each with a part of every row's width and a ring of its own; their messages
are numbered alike. ``omnicfg.engine.shards`` puts them together.

A producer on a GPU can offer a ring in the memory of that GPU beside the one of the host. A consumer that is able to
map it says so, and its rows never pass through the host; what it has to bring for that is not part of this module.

Linux only (``memfd_create``, ``SCM_RIGHTS``). Standard library only.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import mmap
import os
import socket
import struct
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, Self

PROTOCOL = 3
SOCKET_PATH_LIMIT = 107  # sun_path of unix(7), less the closing zero
_ALIGNMENT = 64
_IN_MEMORY, _ON_GPU = 0, 1
_ANSWER_S: Final = 60.0
"""How long a consumer may take to say which ring it wants; it may have to start CUDA first."""
_RETRY_S: Final = 0.05
_POSITION = struct.Struct("<Q")
_LENGTH = struct.Struct("<I")
_TIMEVAL = struct.Struct("@ll")


class TransportError(RuntimeError):
    """A connection that cannot be made, or a peer that speaks something else."""


class GpuRing(Protocol):
    """A producer's ring in the memory of a GPU."""

    def handle(self) -> bytes:
        """What another process maps it with."""

    def close(self) -> None:
        """Give the memory back."""


class MappedRing(Protocol):
    """Another process's ring in the memory of a GPU."""

    def read(self, offset: int, size: int) -> Any:
        """A copy of these bytes: a tensor on a GPU of this process."""

    def side_by_side(self, parts: Sequence[Any], rows: int) -> Any:
        """Parts of ``rows`` rows, as :meth:`read` gave them, put together row by row."""

    def close(self) -> None:
        """Unmap it."""


@dataclass(frozen=True, slots=True)
class RowLayout:
    """What the bytes of one token mean: ``names`` rows of ``width`` elements of ``dtype`` (a torch dtype's name)."""

    names: tuple[str, ...]
    width: int
    dtype: str
    itemsize: int

    @property
    def token_bytes(self) -> int:
        """Bytes of one token's rows."""
        return len(self.names) * self.width * self.itemsize


@dataclass(frozen=True, slots=True)
class Media:
    """A picture, sound or video of a prompt: the ``count`` tokens from ``start`` on stand for it.

    ``measures`` are what its processor told of it, under the names that the model's record gives them.
    """

    modality: str
    start: int
    count: int
    measures: Mapping[str, Sequence[float]]


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of ``count`` tokens of one request, from position ``start``: shape ``[count, names, width]``, C order.

    ``data`` is a ``memoryview`` of the ring, valid until the next message is asked for; of a ring on a GPU, a tensor of
    bytes that is the consumer's own. A request's first rows bring the ``media`` of its prompt.
    """

    request: str
    key: str | None
    start: int
    count: int
    data: Any
    media: tuple[Media, ...] = ()


@dataclass(frozen=True, slots=True)
class Finished:
    """No more rows follow for ``request``.

    ``tokens`` is the number of tokens that the model has read: the prompt and all generated tokens but the last. Rows
    at later positions belong to a step that was already under way when the request stopped: leave them out.
    """

    request: str
    key: str | None
    tokens: int
    reason: str


Message = Rows | Finished


@dataclass(frozen=True, slots=True)
class Slot:
    """Room for one message's rows in the ring, to be published in the order of reservation."""

    offset: int
    size: int
    end: int
    consumer: int
    on_gpu: bool = False


class RowSender:
    """The producer: one ring, one consumer at a time. Call ``reserve`` and ``publish`` in the same order.

    ``capacity`` is in bytes, of which whole units of 64 are used. ``buffer`` is the ring itself, for whoever fills the
    slots; those that are ``on_gpu`` lie in ``gpu_ring``, which ``offer`` makes when the first consumer wants one.
    ``shards`` is how many producers there are of the same rows, this one included.
    """

    def __init__(
        self,
        path: Path,
        layout: RowLayout,
        capacity: int,
        stall_seconds: float = 10.0,
        offer: Callable[[], GpuRing] | None = None,
        shards: int = 1,
    ) -> None:
        _check_length(path)
        self.path = path
        self.layout = layout
        self.capacity = max(_ALIGNMENT, capacity // _ALIGNMENT * _ALIGNMENT)
        self.stall_seconds = stall_seconds
        self.shards = shards
        self._fd = os.memfd_create("omnicfg-rows", os.MFD_CLOEXEC)
        os.ftruncate(self._fd, self.capacity)
        self.buffer = mmap.mmap(self._fd, self.capacity)
        self.gpu_ring: GpuRing | None = None
        self._offer = offer
        self._on_gpu = False
        self._room = threading.Condition()
        self._reserved = 0
        self._published = 0
        self._released = 0
        self._peer: socket.socket | None = None
        self._consumers = 0  # so far; a slot is for the one that was there when it was reserved
        self._closed = False
        self._listener = _listen(path)
        self._doorman = threading.Thread(target=self._serve, name="omnicfg-rows-doorman", daemon=True)
        self._doorman.start()

    @property
    def connected(self) -> bool:
        """Whether a consumer is there."""
        with self._room:
            return self._peer is not None

    def reserve(self, size: int) -> Slot | None:
        """Room for ``size`` bytes (at most ``capacity``), waiting for the consumer; ``None`` without a
        consumer. Raises :class:`ValueError` for more, for which there never is room.
        """
        if size > self.capacity:
            raise ValueError(f"{size} B do not fit into a ring of {self.capacity} B: make it larger or hand on less")
        with self._room:
            start = self._reserved
            if start % self.capacity + size > self.capacity:  # a slot does not wrap
                start += self.capacity - start % self.capacity
            end = start + aligned(size)
            peer, seen, since = self._peer, self._released, time.monotonic()
            while peer is not None and self._peer is peer and end - self._free_from(start) > self.capacity:
                self._room.wait(0.5)
                if self._released != seen or self._published <= self._released:  # it moves, or has nothing to do
                    seen, since = self._released, time.monotonic()
                elif time.monotonic() - since > self.stall_seconds:
                    self._drop(peer)
            if peer is None or self._peer is not peer:
                return None
            self._reserved = end
            return Slot(start % self.capacity, size, end, self._consumers, self._on_gpu)

    def _free_from(self, start: int) -> int:
        """Up to where all has been given back: once that is everything, what is skipped to get to ``start`` as well."""
        return start if self._released >= self._reserved else self._released

    def publish(self, message: Mapping[str, Any], slot: Slot | None = None) -> bool:
        """Hand a message over, with the rows of ``slot`` if it has any; false when there is no consumer any more."""
        where = {} if slot is None else {"offset": slot.offset, "size": slot.size, "end": slot.end}
        framed = _framed({**message, **where})
        with self._room:
            peer = self._peer
            if peer is None or (slot is not None and slot.consumer != self._consumers):
                return False
            if slot is not None:
                self._published = slot.end
        try:
            peer.sendall(framed)
        except OSError:
            self._drop(peer)
            return False
        return True

    def close(self) -> None:
        """Disconnect, remove the socket, give the ring back. Idempotent."""
        with self._room:
            if self._closed:
                return
            self._closed, peer = True, self._peer
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        if peer is not None:
            self._drop(peer)
        self.path.unlink(missing_ok=True)
        self._doorman.join(timeout=5)
        if self.gpu_ring is not None:
            self.gpu_ring.close()
        os.close(self._fd)

    def _drop(self, peer: socket.socket) -> None:
        with contextlib.suppress(OSError):
            peer.shutdown(socket.SHUT_RDWR)  # the doorman wakes up and closes it
        with self._room:
            if self._peer is peer:
                self._peer = None
            self._room.notify_all()

    def _serve(self) -> None:
        while not self._closed:
            try:
                peer, _ = self._listener.accept()
            except OSError:  # closed, or this process may open no file more at present
                if not self._closed:
                    time.sleep(_RETRY_S)
                continue
            with peer:
                with contextlib.suppress(OSError):
                    self._welcome(peer)
                    self._follow(peer)
                self._drop(peer)

    def _welcome(self, peer: socket.socket) -> None:
        layout = self.layout
        hello = {
            "protocol": PROTOCOL,
            "capacity": self.capacity,
            "names": list(layout.names),
            "width": layout.width,
            "dtype": layout.dtype,
            "itemsize": layout.itemsize,
            "gpu": self._offer is not None,
            "shards": self.shards,
        }
        socket.send_fds(peer, [_framed(hello)], [self._fd])
        on_gpu = self._asked_for_gpu(peer)
        handle = self._handle(peer) if on_gpu else None
        with self._room:  # nothing is published, or closed, between its being told and its being there
            if self._closed:
                raise ConnectionAbortedError("nothing will come any more")
            _limit_sending(peer, self.stall_seconds)
            peer.sendall(_framed({"handle": handle}))
            self._on_gpu = on_gpu
            self._released = self._published = self._reserved
            self._consumers += 1
            self._peer = peer

    def _handle(self, peer: socket.socket) -> str:
        """What the ring on the GPU is mapped with; a consumer is told why there is none, and has to come again."""
        assert self._offer is not None
        try:
            self.gpu_ring = self.gpu_ring or self._offer()
            return self.gpu_ring.handle().hex()
        except Exception as error:  # whatever it is, it must not end the doorman
            peer.sendall(_framed({"error": str(error)}))
            raise ConnectionAbortedError from error

    def _asked_for_gpu(self, peer: socket.socket) -> bool:
        """Whether the consumer wants the ring on the GPU. Raises :class:`OSError`."""
        peer.settimeout(_ANSWER_S)
        answer = peer.recv(_POSITION.size, socket.MSG_WAITALL)
        peer.settimeout(None)
        if len(answer) < _POSITION.size:
            raise ConnectionResetError("the consumer left before it said which ring it wants")
        return self._offer is not None and _POSITION.unpack(answer) == (_ON_GPU,)

    def _follow(self, peer: socket.socket) -> None:
        """Take in the consumer's releases until it goes away."""
        pending = b""
        while chunk := peer.recv(4096):
            pending += chunk
            whole = len(pending) // _POSITION.size * _POSITION.size
            if whole:
                (position,) = _POSITION.unpack_from(pending, whole - _POSITION.size)
                pending = pending[whole:]
                with self._room:
                    self._released = max(self._released, min(position, self._reserved))
                    self._room.notify_all()


class Receiver(ABC):
    """A consumer: ``for message in receiver`` until the engine goes away. For one thread; a context manager."""

    layout: RowLayout

    @abstractmethod
    def receive(self, timeout: float | None = None) -> list[Message] | None:
        """The messages of one engine step, ``[]`` after ``timeout`` seconds without any, ``None`` at the end.

        The rows of the step before are given back by this call: copy what is to be kept.
        """

    @abstractmethod
    def close(self) -> None:
        """Disconnect; the engine notices at once."""

    @property
    @abstractmethod
    def on_gpu(self) -> bool:
        """Whether rows come through the memory of a GPU."""

    def __iter__(self) -> Iterator[Message]:
        while (messages := self.receive()) is not None:
            yield from messages

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class RowReceiver(Receiver):
    """The consumer of one ring.

    ``number`` is that of the messages received last, where there are several ``shards``.
    """

    def __init__(self, path: Path, timeout: float = 30.0, mapped: Callable[[bytes], MappedRing] | None = None) -> None:
        """Connect to the engine that listens at ``path``, waiting up to ``timeout`` seconds for it to be
        there. ``mapped`` maps a ring on a GPU where one is offered; what it raises is raised, and
        :class:`RuntimeError` where the engine cannot make the one that it offered. Raises :class:`TransportError` where
        nobody listens in time, or serves another consumer all the while, or speaks something else.
        """
        self._socket = _connect(path, timeout)
        try:
            self._pending = bytearray()
            self._release: int | None = None
            hello, fd = self._greet(path)
            try:
                self._ring = mmap.mmap(fd, int(hello["capacity"]), access=mmap.ACCESS_READ)
            finally:
                os.close(fd)
            names, width, dtype = tuple(hello["names"]), int(hello["width"]), str(hello["dtype"])
            self.layout = RowLayout(names, width, dtype, int(hello["itemsize"]))
            self.shards = int(hello["shards"])
            self.number = -1
            self._mapped = self._choose_ring(mapped if hello["gpu"] else None)
        except TimeoutError as error:
            self._socket.close()
            raise TransportError(_no_answer(path, timeout)) from error
        except BaseException:  # the engine would wait for an answer of this one, and let nobody else in
            self._socket.close()
            raise

    def receive(self, timeout: float | None = None) -> list[Message] | None:
        try:
            self._give_back()
            self._socket.settimeout(timeout)
            body = self._read_frame()
        except (TimeoutError, BlockingIOError):
            return []
        except OSError:
            body = None
        if body is None:
            return None
        frame = json.loads(body)
        self._release = frame.get("end")
        self.number = frame.get("number", -1)
        return [*self._rows(frame), *(Finished(*one) for one in frame.get("finished", ()))]

    def close(self) -> None:
        """Disconnect; the engine notices at once. Any thread may call this; the ring goes when nobody views it."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        mapped, self._mapped = self._mapped, None
        if mapped is not None:
            mapped.close()

    def fileno(self) -> int:
        """The socket's, to wait for messages of several receivers; :meth:`receive` with 0 does not wait."""
        return self._socket.fileno()

    @property
    def mapped(self) -> MappedRing | None:
        """The ring on a GPU, where rows come through one."""
        return self._mapped

    @property
    def on_gpu(self) -> bool:
        return self._mapped is not None

    def _choose_ring(self, mapped: Callable[[bytes], MappedRing] | None) -> MappedRing | None:
        """Say which ring is wanted, and wait to be counted in."""
        self._socket.sendall(_POSITION.pack(_IN_MEMORY if mapped is None else _ON_GPU))
        body = self._read_frame()
        if body is None:
            raise TransportError("the engine left before it let this consumer in")
        told = json.loads(body)
        if "error" in told:
            raise RuntimeError(told["error"])
        return mapped(bytes.fromhex(told["handle"])) if mapped is not None else None

    def _rows(self, frame: Mapping[str, Any]) -> list[Rows]:
        messages: list[Rows] = []
        position, token_bytes = frame.get("offset", 0), self.layout.token_bytes
        ring = memoryview(self._ring)
        media = {request: tuple(Media(*one) for one in items) for request, items in frame.get("media", {}).items()}
        for request, key, start, count in frame.get("rows", ()):
            view = self._view(ring, position, count * token_bytes)
            messages.append(Rows(request, key, start, count, view, media.get(request, ()) if start == 0 else ()))
            position += count * token_bytes
        return messages

    def _view(self, ring: memoryview, position: int, size: int) -> Any:
        if self._mapped is not None:
            return self._mapped.read(position, size)
        return ring[position : position + size]

    def _give_back(self) -> None:
        """Whatever the timeout is: room that is not given back would be missing until the next message, if one comes.

        The engine's doorman does nothing but take these in, so that this waits for no step of the engine.
        """
        if self._release is not None:
            self._socket.settimeout(None)
            with contextlib.suppress(OSError):
                self._socket.sendall(_POSITION.pack(self._release))
            self._release = None

    def _greet(self, path: Path) -> tuple[Mapping[str, Any], int]:
        data, fds, _, _ = socket.recv_fds(self._socket, 65536, 1)
        if not fds:
            raise TransportError(f"what listens at {path} hands over no ring")
        self._pending += data
        try:
            hello = _read_hello(self._read_frame() or b"{}")
            if (spoken := hello.get("protocol", "another one")) != PROTOCOL:
                raise TransportError(
                    f"{path} speaks protocol {spoken}, this side speaks {PROTOCOL}: run the same omnicfg on both sides"
                )
        except BaseException:
            os.close(fds[0])
            raise
        return hello, fds[0]

    def _read_frame(self) -> bytes | None:
        """One length-prefixed message; ``None`` at the end. A timeout loses nothing."""
        while True:
            if len(self._pending) >= _LENGTH.size:
                (length,) = _LENGTH.unpack_from(self._pending)
                if len(self._pending) >= _LENGTH.size + length:
                    body = bytes(self._pending[_LENGTH.size : _LENGTH.size + length])
                    del self._pending[: _LENGTH.size + length]
                    return body
            chunk = self._socket.recv(65536)
            if not chunk:
                return None
            self._pending += chunk


@dataclass(slots=True)
class Payload:
    """All rows of one finished request: ``data`` has shape ``[tokens, names, width]``, C order. ``complete`` is false
    where rows are missing.
    """

    request: str
    key: str | None
    tokens: int
    reason: str
    data: memoryview
    complete: bool


class PayloadAssembler:
    """Puts the messages of a :class:`RowReceiver` together, request by request.

    Rows are copied out of the ring once. Fresh memory costs more than the copy itself (the kernel clears every page),
    so a consumer that is done with a payload should :meth:`recycle` it.
    """

    def __init__(self, layout: RowLayout) -> None:
        self.layout = layout
        self._open: dict[str, _Partial] = {}
        self._spare: list[bytearray] = []

    def add(self, message: Message) -> Payload | None:
        """Take a message in; the whole payload when it was the request's last."""
        token_bytes = self.layout.token_bytes
        if isinstance(message, Rows):
            partial = self._open.get(message.request)
            if partial is None:
                spare = self._spare.pop() if self._spare else bytearray(len(message.data))
                partial = self._open[message.request] = _Partial(spare)
            if message.start * token_bytes == partial.size:
                partial.append(message.data)
            else:  # rows were dropped before these
                partial.broken = True
            return None
        partial = self._open.pop(message.request, None) or _Partial(bytearray())
        size = message.tokens * token_bytes
        complete = not partial.broken and partial.size >= size
        data = memoryview(partial.buffer)[: min(size, partial.size)]
        return Payload(message.request, message.key, message.tokens, message.reason, data, complete)

    def recycle(self, payload: Payload) -> None:
        """Give a payload's memory back for the next one; its ``data`` must not be used any more."""
        buffer = payload.data.obj
        assert isinstance(buffer, bytearray)
        payload.data.release()
        self._spare.append(buffer)


@dataclass(slots=True)
class _Partial:
    buffer: bytearray
    size: int = 0
    broken: bool = False

    def append(self, data: memoryview) -> None:
        end = self.size + len(data)
        if end > len(self.buffer):
            self.buffer.extend(bytes(max(end, 2 * len(self.buffer)) - len(self.buffer)))
        memoryview(self.buffer)[self.size : end] = data  # a bytearray's own slice would copy twice
        self.size = end


def rows_message(
    rows: Sequence[tuple[str, str | None, int, int]],
    finished: Sequence[tuple[str, str | None, int, str]] = (),
    media: Mapping[str, Sequence[Media]] | None = None,
) -> dict[str, Any]:
    """A message's body: ``rows`` are (request, key, start, count), in the order in which they lie in the
    slot; ``media`` those of the requests whose first rows are among them.
    """
    described = {request: [dataclasses.astuple(one) for one in items] for request, items in (media or {}).items()}
    return {"rows": rows, "finished": finished, **({"media": described} if described else {})}


def _read_hello(body: bytes) -> Mapping[str, Any]:
    """What a producer says first; nothing where it is something else that speaks."""
    try:
        hello = json.loads(body)
    except ValueError:
        return {}
    return hello if isinstance(hello, dict) else {}


def _framed(message: Mapping[str, Any]) -> bytes:
    body = json.dumps(message, separators=(",", ":")).encode()
    return _LENGTH.pack(len(body)) + body


def aligned(size: int) -> int:
    """Bytes of a ring that so many take up."""
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _limit_sending(peer: socket.socket, seconds: float) -> None:
    """Have sending fail where the other side makes no room for so long; a timeout of Python's would count for reading
    too.
    """
    whole = int(seconds)
    limit = _TIMEVAL.pack(whole, max(1, int((seconds - whole) * 1e6)))  # zero would be for ever
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)


def _listen(path: Path) -> socket.socket:
    path.parent.mkdir(parents=True, exist_ok=True)
    if os.path.lexists(path) and not path.is_socket():
        raise TransportError(f"{path} is there and no socket: name another path for the socket of rows, or remove it")
    path.unlink(missing_ok=True)  # left by an engine that was killed
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    mask = os.umask(0o077)
    try:
        listener.bind(os.fspath(path))
    finally:
        os.umask(mask)
    listener.listen(1)
    return listener


def _connect(path: Path, timeout: float) -> socket.socket:
    _check_length(path)
    deadline = time.monotonic() + timeout
    while True:
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            peer.settimeout(timeout)
            peer.connect(os.fspath(path))
        except (FileNotFoundError, ConnectionRefusedError, BlockingIOError) as error:
            peer.close()
            if time.monotonic() > deadline:
                is_busy = isinstance(error, BlockingIOError)  # so many wait for the engine that no more may
                raise TransportError(
                    _no_answer(path, timeout) if is_busy else f"no engine listens at {path}"
                ) from error
            time.sleep(_RETRY_S)
        except BaseException:
            peer.close()
            raise
        else:
            return peer


def _check_length(path: Path) -> None:
    if len(os.fsencode(path)) > SOCKET_PATH_LIMIT:
        raise TransportError(f"the socket path {path} is longer than {SOCKET_PATH_LIMIT} bytes: name a shorter one")


def _no_answer(path: Path, timeout: float) -> str:
    return (
        f"the engine at {path} has not let this consumer in for {timeout:g} s: it serves one at a time, so end the "
        "other one; where there is none, the engine hangs"
    )
