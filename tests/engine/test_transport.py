"""The ring between the engine and one consumer."""

from __future__ import annotations

import errno
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from omnicfg.engine import transport
from omnicfg.engine.transport import (
    Finished,
    Payload,
    PayloadAssembler,
    RowLayout,
    RowReceiver,
    Rows,
    RowSender,
    Slot,
    TransportError,
    rows_message,
)
from tests.engine.rings import MappedFile, OwnRing
from tests.patience import PATIENCE_S, until

LAYOUT = RowLayout(("layer 2", "final"), width=4, dtype="float32", itemsize=4)
TOKEN = LAYOUT.token_bytes
CAPACITY = 16 * 64


@pytest.fixture
def sender(tmp_path: Path) -> Iterator[RowSender]:
    sender = RowSender(tmp_path / "rows.sock", LAYOUT, CAPACITY, stall_seconds=PATIENCE_S)
    yield sender
    sender.close()


def send(sender: RowSender, request: str, start: int, count: int, fill: int) -> bool:
    slot = sender.reserve(count * TOKEN)
    if slot is None:
        return False
    sender.buffer[slot.offset : slot.offset + slot.size] = bytes([fill]) * slot.size
    return sender.publish(rows_message([(request, "key", start, count)]), slot)


def test_rows_arrive_as_they_were_written(sender: RowSender) -> None:
    with RowReceiver(sender.path) as receiver:
        assert receiver.layout == LAYOUT
        assert send(sender, "a", 0, 3, fill=7)
        (rows,) = receiver.receive() or []
        assert isinstance(rows, Rows)
        assert (rows.request, rows.key, rows.start, rows.count) == ("a", "key", 0, 3)
        assert bytes(rows.data) == b"\x07" * 3 * TOKEN


def test_one_message_carries_rows_of_many_requests(sender: RowSender) -> None:
    with RowReceiver(sender.path) as receiver:
        slot = sender.reserve(3 * TOKEN)
        assert slot is not None
        sender.buffer[slot.offset : slot.offset + slot.size] = b"\x01" * TOKEN + b"\x02" * 2 * TOKEN
        sender.publish(rows_message([("a", None, 5, 1), ("b", None, 0, 2)]), slot)
        first, second = receiver.receive() or []
        assert isinstance(first, Rows)
        assert isinstance(second, Rows)
        assert bytes(first.data) == b"\x01" * TOKEN
        assert bytes(second.data) == b"\x02" * 2 * TOKEN


def test_the_ring_is_reused_and_never_wraps_within_a_message(sender: RowSender) -> None:
    with RowReceiver(sender.path) as receiver:
        for turn in range(100):
            assert send(sender, "a", turn * 5, 5, fill=turn % 251)
            (rows,) = receiver.receive() or []
            assert isinstance(rows, Rows)
            assert bytes(rows.data) == bytes([turn % 251]) * 5 * TOKEN


def test_a_slow_consumer_is_waited_for(sender: RowSender) -> None:
    with RowReceiver(sender.path) as receiver:
        taken: list[int] = []

        def consume() -> None:
            while len(taken) < 50:
                for message in receiver.receive() or ():
                    assert isinstance(message, Rows)
                    taken.append(message.data[0])
                time.sleep(0.002)

        consumer = threading.Thread(target=consume)
        consumer.start()
        assert all(send(sender, "a", turn * 8, 8, fill=turn) for turn in range(50))
        consumer.join()
        assert taken == list(range(50))


def test_a_consumer_that_stands_still_is_disconnected(tmp_path: Path) -> None:
    sender = RowSender(tmp_path / "rows.sock", LAYOUT, CAPACITY, stall_seconds=0.5)
    receiver = RowReceiver(sender.path)
    began = time.monotonic()
    assert send(sender, "a", 0, CAPACITY // TOKEN, fill=1)
    assert not send(sender, "a", CAPACITY // TOKEN, 1, fill=1)
    assert time.monotonic() - began > 0.5
    assert not sender.connected
    while receiver.receive():  # what was sent can still be read, then comes the end
        pass
    receiver.close()
    sender.close()


def test_a_consumer_that_takes_no_message_is_disconnected(tmp_path: Path) -> None:
    """Its socket is full before its ring is: messages without rows take no room there."""
    sender = RowSender(tmp_path / "rows.sock", LAYOUT, CAPACITY, stall_seconds=0.5)
    message = rows_message((), [("r" * 1000, None, 0, "stop")] * 100)
    with RowReceiver(sender.path):
        until(lambda: not sender.publish(message))
        assert not sender.connected
    sender.close()


def test_the_end_of_the_ring_is_no_obstacle_where_all_was_given_back(sender: RowSender) -> None:
    with RowReceiver(sender.path) as receiver:
        for start, count in ((0, 20), (20, 32), (52, 30)):
            assert in_time(partial(send, sender, "a", start, count, fill=count))
            (rows,) = receiver.receive() or []
            assert isinstance(rows, Rows)
            assert bytes(rows.data) == bytes([count]) * count * TOKEN
            assert receiver.receive(timeout=0) == []  # gives the room back


def in_time(task: Callable[[], bool]) -> bool:
    """What a task gives that may hang for ever."""
    given: list[bool] = []
    thread = threading.Thread(target=lambda: given.append(task()), daemon=True)
    thread.start()
    thread.join(PATIENCE_S / 4)
    return given == [True]


def test_more_than_the_ring_holds_is_refused_and_not_waited_for(sender: RowSender) -> None:
    with RowReceiver(sender.path), pytest.raises(ValueError, match=r"1025 B do not fit into a ring of 1024 B"):
        sender.reserve(CAPACITY + 1)


def test_a_ring_of_any_size_gives_out_aligned_slots(tmp_path: Path) -> None:
    sender = RowSender(tmp_path / "rows.sock", LAYOUT, 1021)
    with RowReceiver(sender.path) as receiver:
        for turn in range(40):
            slot = sender.reserve(3 * TOKEN)
            assert slot is not None
            assert slot.offset % 64 == 0
            sender.publish(rows_message([("a", None, turn, 3)]), slot)
            assert receiver.receive()
    sender.close()


def test_all_room_is_given_back_to_an_engine_that_is_slow_to_hear_of_it(
    sender: RowSender, monkeypatch: pytest.MonkeyPatch
) -> None:
    follow = sender._follow

    def late(peer: socket.socket) -> None:
        time.sleep(0.3)  # a busy machine
        follow(peer)

    monkeypatch.setattr(sender, "_follow", late)
    with RowReceiver(sender.path) as receiver:
        receiver._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)  # the least there is
        for turn in range(16):
            assert send(sender, "a", turn, 1, fill=turn)
        for _ in range(16):
            assert receiver.receive(timeout=0)
        assert receiver.receive(timeout=0) == []
        until(lambda: sender._released == 16 * 64)


def test_a_consumer_that_waits_for_a_long_step_is_not_to_blame(
    sender: RowSender, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step takes ten times as long as a consumer may stand still, by a clock that is moved on."""
    moved_s, reads = 0.0, 0

    def clock() -> float:
        nonlocal reads
        reads += 1
        return time.monotonic() + moved_s

    monkeypatch.setattr(transport, "time", SimpleNamespace(monotonic=clock, sleep=time.sleep))
    with RowReceiver(sender.path) as receiver:
        slot = sender.reserve(sender.capacity)  # reserved by a step that takes its time, not yet published
        slots: list[Slot | None] = []
        next_step = threading.Thread(target=lambda: slots.append(sender.reserve(TOKEN)))
        before = reads
        next_step.start()
        until(lambda: reads > before)  # it waits
        moved_s, before = 10 * sender.stall_seconds, reads
        until(lambda: reads > before)  # it has seen how much time has passed
        assert sender.publish(rows_message([("a", None, 0, 1)]), slot)
        assert receiver.receive()
        assert receiver.receive(timeout=0.01) == []  # gives the room back
        next_step.join()
        assert slots != [None]


def test_a_consumer_that_is_connected_misses_nothing(sender: RowSender, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = sender._asked_for_gpu

    def late(peer: socket.socket) -> bool:
        answer = asked(peer)
        time.sleep(0.2)  # a busy machine
        return answer

    monkeypatch.setattr(sender, "_asked_for_gpu", late)
    for fill in (1, 2, 3):
        with RowReceiver(sender.path) as receiver:
            assert send(sender, "a", 0, 1, fill)
            (rows,) = receiver.receive() or []
            assert isinstance(rows, Rows)
            assert rows.data[0] == fill


class SlowToCount(RowSender):
    """Takes a while between telling a consumer that it is in and knowing of it."""

    @property
    def _peer(self) -> socket.socket | None:
        return self._known

    @_peer.setter
    def _peer(self, peer: socket.socket | None) -> None:
        time.sleep(0.2 if peer is not None else 0)
        self._known = peer


def test_a_consumer_that_has_just_connected_is_told_of_the_end(tmp_path: Path) -> None:
    sender = SlowToCount(tmp_path / "rows.sock", LAYOUT, 1024)
    with RowReceiver(sender.path) as receiver:
        sender.close()
        assert receiver.receive(30) is None


def test_without_a_consumer_nothing_is_reserved(sender: RowSender) -> None:
    assert sender.reserve(TOKEN) is None
    RowReceiver(sender.path).close()
    until(lambda: not sender.connected)
    assert sender.reserve(TOKEN) is None


def test_a_consumer_that_dies_frees_the_ring_for_the_next(sender: RowSender) -> None:
    RowReceiver(sender.path).close()
    until(lambda: not sender.connected)
    with RowReceiver(sender.path) as receiver:
        for turn in range(40):
            assert send(sender, "b", turn, 8, fill=turn)
            (rows,) = receiver.receive() or []
            assert isinstance(rows, Rows)
            assert rows.data[0] == turn


def test_a_second_consumer_is_told_of_the_first(sender: RowSender) -> None:
    with RowReceiver(sender.path), pytest.raises(TransportError, match="one at a time, so end the other one"):
        RowReceiver(sender.path, timeout=0.1)


def test_a_consumer_in_a_crowd_is_told_of_the_first(sender: RowSender) -> None:
    with RowReceiver(sender.path):
        crowd = [socket.socket(socket.AF_UNIX) for _ in range(8)]
        for one in crowd:
            one.setblocking(False)
            one.connect_ex(str(sender.path))
        with pytest.raises(TransportError, match="one at a time, so end the other one"):
            RowReceiver(sender.path, timeout=0.1)
        for one in crowd:
            one.close()


@pytest.mark.parametrize(
    "hello", [b"hello", b"[]", b"{}", json.dumps({"protocol": transport.PROTOCOL - 1}).encode()], ids=str
)
def test_whoever_speaks_something_else_is_left_at_once(tmp_path: Path, hello: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as listener, (tmp_path / "ring").open("wb") as ring:
        listener.bind(str(tmp_path / "rows.sock"))
        listener.listen(1)
        left: list[bytes] = []

        def serve() -> None:
            peer, _ = listener.accept()
            with peer:
                socket.send_fds(peer, [struct.pack("<I", len(hello)) + hello], [ring.fileno()])
                left.append(peer.recv(1))

        server = threading.Thread(target=serve)
        server.start()
        open_before = len(list(Path("/proc/self/fd").iterdir()))
        with pytest.raises(TransportError, match="run the same omnicfg on both sides") as raised:
            RowReceiver(tmp_path / "rows.sock")
        server.join(PATIENCE_S)
        assert left == [b""], "while the error is still looked at"
        assert raised.value.__traceback__ is not None
        assert len(list(Path("/proc/self/fd").iterdir())) <= open_before


def test_an_engine_that_can_open_no_file_for_a_while_lets_consumers_in_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    accept, failures = socket.socket.accept, [OSError(errno.EMFILE, "Too many open files")]

    def scarce(listener: socket.socket) -> tuple[socket.socket, str]:
        if failures:
            raise failures.pop()
        return accept(listener)

    monkeypatch.setattr(socket.socket, "accept", scarce)
    sender = RowSender(tmp_path / "rows.sock", LAYOUT, CAPACITY)
    with RowReceiver(sender.path, timeout=PATIENCE_S / 4):
        assert not failures
    sender.close()
    assert not sender._doorman.is_alive()


def test_a_slot_of_a_consumer_that_is_gone_is_not_published_to_the_next(sender: RowSender) -> None:
    receiver = RowReceiver(sender.path)
    slot = sender.reserve(TOKEN)
    receiver.close()
    until(lambda: not sender.connected)
    with RowReceiver(sender.path) as receiver:
        assert not sender.publish(rows_message([("a", None, 0, 1)]), slot)
        assert receiver.receive(timeout=0.05) == []


def test_the_end_of_the_engine_ends_the_iteration(sender: RowSender) -> None:
    receiver = RowReceiver(sender.path)
    sender.publish(rows_message([], [("a", "key", 0, "abort")]))
    sender.close()
    assert list(receiver) == [Finished("a", "key", 0, "abort")]
    assert not sender.path.exists()


def test_a_receiver_that_another_thread_has_closed_is_at_its_end(sender: RowSender) -> None:
    receiver = RowReceiver(sender.path)
    assert send(sender, "a", 0, 1, fill=1)
    assert receiver.receive()
    receiver.close()
    assert receiver.receive() is None


def test_a_file_that_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(TransportError, match="name another path"):
        RowSender(tmp_path / "notes", LAYOUT, 1024)
    assert (tmp_path / "notes").read_text() == "mine"


def test_a_socket_that_was_left_behind_is_replaced(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "rows.sock"))
    sender = RowSender(tmp_path / "rows.sock", LAYOUT, 1024)
    RowReceiver(sender.path).close()
    sender.close()


def test_only_the_owner_may_connect(sender: RowSender) -> None:
    assert sender.path.stat().st_mode & 0o077 == 0


def test_a_path_too_long_for_a_socket_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TransportError, match="longer than 107 bytes"):
        RowSender(tmp_path / ("x" * 120), LAYOUT, 1024)
    with pytest.raises(TransportError, match="longer than 107 bytes"):
        RowReceiver(tmp_path / ("x" * 120))


def test_nobody_listening_is_said(tmp_path: Path) -> None:
    with pytest.raises(TransportError, match="no engine listens"):
        RowReceiver(tmp_path / "rows.sock", timeout=0.1)


def rows_of(request: str, start: int, count: int, fill: int) -> Rows:
    return Rows(request, None, start, count, memoryview(bytes([fill]) * count * TOKEN))


def assembled(*messages: Rows | Finished) -> list[Payload]:
    assembler = PayloadAssembler(LAYOUT)
    return [payload for message in messages if (payload := assembler.add(message)) is not None]


def test_a_payload_is_whole_when_its_last_message_came() -> None:
    (payload,) = assembled(rows_of("a", 0, 2, 1), rows_of("a", 2, 1, 2), Finished("a", None, 3, "stop"))
    assert payload.complete
    assert payload.data == b"\x01" * 2 * TOKEN + b"\x02" * TOKEN


def test_rows_beyond_the_end_are_left_out() -> None:
    (payload,) = assembled(rows_of("a", 0, 4, 1), Finished("a", None, 3, "stop"))
    assert payload.complete
    assert len(payload.data) == 3 * TOKEN


@pytest.mark.parametrize("start", [1, 3])
def test_a_gap_makes_a_payload_incomplete(start: int) -> None:
    (payload,) = assembled(rows_of("a", start, 4, 1), Finished("a", None, 4, "stop"))
    assert not payload.complete


def test_requests_do_not_mix() -> None:
    messages = (rows_of("a", 0, 1, 1), rows_of("b", 0, 1, 2), Finished("b", None, 1, "x"), Finished("a", None, 1, "x"))
    second, first = assembled(*messages)
    assert first.data == b"\x01" * TOKEN
    assert second.data == b"\x02" * TOKEN


@pytest.fixture
def offering(tmp_path: Path) -> Iterator[RowSender]:
    ring = tmp_path / "ring"
    sender = RowSender(tmp_path / "rows.sock", LAYOUT, 1024, offer=lambda: OwnRing(ring))
    yield sender
    sender.close()


def test_rows_come_through_an_offered_ring_where_the_consumer_maps_it(offering: RowSender) -> None:
    with RowReceiver(offering.path, mapped=MappedFile) as receiver:
        assert receiver.on_gpu
        slot = offering.reserve(2 * TOKEN)
        assert slot is not None
        assert slot.on_gpu
        assert isinstance(offering.gpu_ring, OwnRing)
        offering.gpu_ring.write(slot.offset, b"\x05" * slot.size)
        offering.publish(rows_message([("a", None, 0, 2)]), slot)
        (rows,) = receiver.receive() or []
        assert isinstance(rows, Rows)
        assert rows.data == b"\x05" * 2 * TOKEN
    offering.close()
    assert offering.gpu_ring.closed


def test_a_consumer_without_a_gpu_reads_the_hosts_ring(offering: RowSender) -> None:
    with RowReceiver(offering.path) as receiver:
        assert not receiver.on_gpu
        slot = offering.reserve(TOKEN)
        assert slot is not None
        assert not slot.on_gpu
    assert offering.gpu_ring is None


def test_nothing_is_mapped_where_nothing_is_offered(sender: RowSender) -> None:
    with RowReceiver(sender.path, mapped=MappedFile) as receiver:
        assert not receiver.on_gpu


def test_a_consumer_that_cannot_map_the_ring_may_come_again_for_the_hosts(offering: RowSender) -> None:
    def refuses(handle: bytes) -> MappedFile:
        raise RuntimeError("cudaIpcOpenMemHandle: cudaErrorPeerAccessUnsupported")

    with pytest.raises(RuntimeError, match="cudaErrorPeerAccessUnsupported"):
        RowReceiver(offering.path, mapped=refuses)
    with RowReceiver(offering.path):
        slot = offering.reserve(TOKEN)
        assert slot is not None
        assert not slot.on_gpu


@pytest.mark.parametrize(
    "error", [RuntimeError("cudaMalloc: cudaErrorMemoryAllocation"), ImportError("no cudaErrorMemoryAllocation")]
)
def test_an_engine_that_cannot_make_its_ring_says_why(tmp_path: Path, error: Exception) -> None:
    def fails() -> OwnRing:
        raise error

    sender = RowSender(tmp_path / "rows.sock", LAYOUT, 1024, offer=fails)
    try:
        with pytest.raises(RuntimeError, match="cudaErrorMemoryAllocation"):
            RowReceiver(sender.path, mapped=MappedFile)
        with RowReceiver(sender.path) as receiver:
            assert send(sender, "a", 0, 1, fill=1)
            assert receiver.receive() != []
    finally:
        sender.close()
