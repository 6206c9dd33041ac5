"""Rows of which several ranks have a part each, at one consumer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from omnicfg.engine.shards import connect
from omnicfg.engine.spec import shard_path
from omnicfg.engine.transport import (
    Finished,
    Media,
    Message,
    Receiver,
    RowLayout,
    RowReceiver,
    Rows,
    RowSender,
    TransportError,
    rows_message,
)
from tests.engine.rings import MappedFile, OwnRing

PART = RowLayout(("layer 2", "final"), width=2, dtype="uint8", itemsize=1)


class Ranks:
    """Two producers: rank r writes 10 * (r + 1) plus the token's position."""

    def __init__(self, socket: Path, layouts: Sequence[RowLayout] = (PART, PART)) -> None:
        self.socket = socket
        paths = [Path(shard_path(str(socket), rank)) for rank in range(2)]
        self.senders = [RowSender(path, layout, 1024, shards=2) for path, layout in zip(paths, layouts, strict=True)]

    def send(self, number: int, start: int, count: int, ranks: Sequence[int] = (0, 1)) -> None:
        for rank in ranks:
            slot = self.senders[rank].reserve(count * PART.token_bytes)
            assert slot is not None
            tokens = [10 * (rank + 1) + start + token for token in range(count)]
            data = bytes(value for value in tokens for _ in range(PART.token_bytes))
            self.senders[rank].buffer[slot.offset : slot.offset + slot.size] = data
            media = {"a": (Media("image", 0, 1, {}),)} if start == 0 else {}
            message = rows_message([("a", "key", start, count)], media=media)
            self.senders[rank].publish({**message, "number": number}, slot)

    def finish(self, number: int, tokens: int) -> None:
        for sender in self.senders:
            sender.publish({**rows_message((), [("a", "key", tokens, "stop")]), "number": number})

    def close(self) -> None:
        for sender in self.senders:
            sender.close()


@pytest.fixture
def ranks(tmp_path: Path) -> Iterator[Ranks]:
    made = Ranks(tmp_path / "rows.sock")
    yield made
    made.close()


def taken(receiver: Receiver) -> list[tuple[int, list[int]]]:
    """(start, all values) of the next rows."""
    messages: list[Message] = receiver.receive(30.0) or []
    return [(one.start, list(one.data)) for one in messages if isinstance(one, Rows)]


def test_parts_are_put_together_row_by_row(ranks: Ranks) -> None:
    with connect(ranks.socket) as receiver:
        assert receiver.layout == RowLayout(PART.names, 4, "uint8", 1)
        ranks.send(1, start=0, count=2)
        assert taken(receiver) == [(0, [10, 10, 20, 20, 10, 10, 20, 20, 11, 11, 21, 21, 11, 11, 21, 21])]


def test_an_end_and_the_media_are_told_once(ranks: Ranks) -> None:
    with connect(ranks.socket) as receiver:
        ranks.send(1, start=0, count=1)
        ranks.finish(2, tokens=1)
        rows, end = [message for _ in range(2) for message in receiver.receive(30) or []]
        assert isinstance(rows, Rows)
        assert [one.modality for one in rows.media] == ["image"]
        assert end == Finished("a", "key", 1, "stop")


def test_what_one_rank_has_not_sent_counts_as_not_sent(ranks: Ranks) -> None:
    with connect(ranks.socket) as receiver:
        ranks.send(7, start=0, count=1, ranks=[1])
        ranks.send(8, start=1, count=1)
        ranks.send(9, start=2, count=1, ranks=[0])
        ranks.send(10, start=3, count=1)
        assert [start for _ in range(2) for start, _ in taken(receiver)] == [1, 3]


def test_a_part_waits_for_the_others(ranks: Ranks) -> None:
    with connect(ranks.socket) as receiver:
        ranks.send(1, start=5, count=1, ranks=[0])
        assert receiver.receive(0.01) == []
        ranks.send(1, start=5, count=1, ranks=[1])
        assert taken(receiver) == [(5, [15, 15, 25, 25, 15, 15, 25, 25])]


def test_room_is_given_back_in_every_ring(ranks: Ranks) -> None:
    with connect(ranks.socket) as receiver:
        for number in range(1, 100):
            ranks.send(number, start=0, count=50)
            assert taken(receiver)[0][1][:4] == [10, 10, 20, 20]


def test_the_end_of_one_rank_is_the_end(ranks: Ranks) -> None:
    with connect(ranks.socket) as receiver:
        ranks.senders[1].close()
        assert list(receiver) == []


def test_ranks_with_different_rows_are_refused(tmp_path: Path) -> None:
    ranks = Ranks(tmp_path / "rows.sock", [PART, RowLayout(("final",), 2, "uint8", 1)])
    try:
        with pytest.raises(TransportError, match="different rows"):
            connect(ranks.socket)
    finally:
        ranks.close()


def test_parts_come_through_the_ring_of_each_rank_where_the_consumer_maps_them(tmp_path: Path) -> None:
    socket = tmp_path / "rows.sock"
    rings = [OwnRing(tmp_path / f"ring{rank}") for rank in range(2)]
    offers = [partial(lambda ring: ring, ring) for ring in rings]
    paths = [Path(shard_path(str(socket), rank)) for rank in range(2)]
    senders = [RowSender(path, PART, 1024, offer=offer, shards=2) for path, offer in zip(paths, offers, strict=True)]
    try:
        with connect(socket, mapped=MappedFile) as receiver:
            assert receiver.on_gpu
            for sender, ring, data in zip(senders, rings, (b"abcdefgh", b"ABCDEFGH"), strict=True):
                slot = sender.reserve(len(data))
                assert slot is not None
                ring.write(slot.offset, data)
                sender.publish({**rows_message([("a", None, 0, 2)]), "number": 1}, slot)
            (rows,) = receiver.receive(30) or []
            assert isinstance(rows, Rows)
            assert rows.data == b"abABcdCDefEFghGH"
    finally:
        for sender in senders:
            sender.close()


def test_a_single_rank_needs_no_putting_together(tmp_path: Path) -> None:
    sender = RowSender(tmp_path / "rows.sock", PART, 1024)
    with connect(sender.path) as receiver:
        assert isinstance(receiver, RowReceiver)
    sender.close()
