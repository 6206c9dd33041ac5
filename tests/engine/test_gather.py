"""Which rows are ordered in which step, and where they lie; with a fake scheduler and a real ring."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("vllm", reason="the gathering half runs inside vLLM")
pytestmark = pytest.mark.slow  # importing vLLM takes ten seconds

import torch  # noqa: E402

from omnicfg.engine.gather import OrderBook, Shipper, Span, Staging, StepOrders, media_of  # noqa: E402
from omnicfg.engine.metrics import BYTES, DROPPED, ROWS, Tally  # noqa: E402
from omnicfg.engine.transport import (  # noqa: E402
    Finished,
    Media,
    PayloadAssembler,
    RowLayout,
    RowReceiver,
    Rows,
    RowSender,
    Slot,
)
from tests.patience import until  # noqa: E402

BLOCK = 4


def step(tables: dict[str, list[int]], new: dict[str, tuple[int, int]], running: dict[str, tuple[int, int]]) -> Any:
    """A scheduler's output: block tables, and (tokens computed before, tokens scheduled) of requests.

    Running requests are told of all their blocks, as one that resumes is.
    """
    return SimpleNamespace(
        scheduled_new_reqs=[
            SimpleNamespace(req_id=name, num_computed_tokens=before, block_ids=(tables[name],))
            for name, (before, _) in new.items()
        ],
        scheduled_cached_reqs=SimpleNamespace(
            req_ids=list(running),
            num_computed_tokens=[before for before, _ in running.values()],
            new_block_ids=[(tables[name],) for name in running],
            resumed_req_ids=set(running),
        ),
        preempted_req_ids=set(),
        num_scheduled_tokens={name: count for name, (_, count) in {**new, **running}.items()},
        kv_connector_block_state=SimpleNamespace(resolve_block_ids=lambda name: (tables[name],)),
    )


def feature(modality: str, start: int, count: int, **fields: Any) -> Any:
    """Of vLLM: a picture or sound of a prompt, and what its processor gave."""
    data = {name: SimpleNamespace(data=torch.tensor(value)) for name, value in fields.items()}
    return SimpleNamespace(
        modality=modality, data=data, mm_position=SimpleNamespace(offset=start, length=count), identifier="x"
    )


def opened(*requests: str) -> OrderBook:
    book = OrderBook(BLOCK)
    for request in requests:
        book.open(request, True)
    return book


def test_a_cold_prompt_is_ordered_as_it_is_computed() -> None:
    book = opened("a")
    first = book.order(step({"a": [7, 8, 9]}, {"a": (0, 6)}, {}))
    assert first == StepOrders(new=[Span("a", None, 0, 6, [7, 8])])
    second = book.order(step({"a": [7, 8, 9]}, {}, {"a": (6, 4)}))
    assert second == StepOrders(new=[Span("a", None, 6, 10, [8, 9])])


def test_rows_of_a_hit_are_old_and_go_first() -> None:
    orders = opened("a").order(step({"a": [7, 8, 9]}, {"a": (8, 3)}, {}))
    assert orders == StepOrders(old=[Span("a", None, 0, 8, [7, 8])], new=[Span("a", None, 8, 11, [9])])


def test_a_hit_on_blocks_that_the_same_step_computes_is_not_old() -> None:
    tables = {"a": [7, 8, 5], "b": [7, 8, 6]}
    orders = opened("b").order(step(tables, {"a": (4, 6), "b": (8, 2)}, {}))
    assert orders == StepOrders(old=[Span("b", None, 0, 4, [7])], new=[Span("b", None, 4, 10, [7, 8, 6][1:])])


def test_generated_tokens_follow_one_by_one() -> None:
    book = opened("a")
    book.order(step({"a": [7, 8]}, {"a": (0, 4)}, {}))
    assert book.order(step({"a": [7, 8]}, {}, {"a": (4, 1)})).new == [Span("a", None, 4, 5, [8])]


def test_a_running_request_is_told_only_of_blocks_that_are_added() -> None:
    book = opened("a")
    book.order(step({"a": [7]}, {"a": (0, 4)}, {}))
    grown = step({"a": [8]}, {}, {"a": (4, 1)})
    grown.scheduled_cached_reqs.resumed_req_ids = set()
    assert book.order(grown).new == [Span("a", None, 4, 5, [8])]
    unchanged = step({"a": []}, {}, {"a": (5, 1)})
    unchanged.scheduled_cached_reqs.new_block_ids = [None]
    unchanged.scheduled_cached_reqs.resumed_req_ids = set()
    assert book.order(unchanged).new == [Span("a", None, 5, 6, [8])]


def test_what_a_preempted_request_computes_again_is_not_sent_again() -> None:
    book = opened("a")
    book.order(step({"a": [7, 8]}, {"a": (0, 6)}, {}))
    again = step({"a": [3, 4, 5]}, {}, {"a": (0, 5)})
    assert book.order(again) == StepOrders()
    assert book.order(step({"a": [3, 4, 5]}, {}, {"a": (5, 4)})).new == [Span("a", None, 6, 9, [4, 5])]


def test_a_request_that_lost_its_blocks_is_named() -> None:
    book = opened("a", "b")
    book.order(step({"a": [7], "b": [8]}, {"a": (0, 4), "b": (0, 4)}, {}))
    taken = step({"b": [8, 7]}, {}, {"b": (4, 1)})
    taken.preempted_req_ids = {"a", "of nobody's interest"}
    assert book.order(taken).released == ["a"]
    book.close("b", 5, "stop")
    assert book.order(step({}, {}, {})).released == ["b"]


def test_the_first_rows_bring_the_media_of_the_prompt() -> None:
    book = OrderBook(BLOCK)
    picture = Media("image", 1, 2, {"grid": [1.0, 2.0, 4.0]})
    book.open("a", True, (picture,))
    first = book.order(step({"a": [3, 5]}, {"a": (0, 4)}, {}))
    second = book.order(step({"a": [3, 5]}, {}, {"a": (4, 4)}))
    assert [span.media for span in (*first.new, *second.new)] == [(picture,), ()]


def test_of_media_is_told_what_the_record_asks_for() -> None:
    measures = {"grid": ["image_grid_thw", "video_grid_thw"], "seconds": ["second_per_grid_ts"]}
    features = [
        feature("image", 4, 15, image_grid_thw=[1, 6, 10], pixel_values=[[0.5]]),
        feature("video", 30, 8, video_grid_thw=[2, 4, 4], second_per_grid_ts=2.0),
        feature("audio", 50, 13, audio_feature_lengths=100),
    ]
    assert list(media_of(features, measures)) == [
        Media("image", 4, 15, {"grid": [1.0, 6.0, 10.0]}),
        Media("video", 30, 8, {"grid": [2.0, 4.0, 4.0], "seconds": [2.0]}),
        Media("audio", 50, 13, {}),
    ]
    [nothing] = media_of([SimpleNamespace(**{**vars(features[0]), "data": None})], measures)
    assert nothing.measures == {}, "what another process keeps is not known here"


def test_nobody_asked_so_nothing_is_ordered() -> None:
    book = OrderBook(BLOCK)
    for flag in (None, False, 0, ""):
        book.open("a", flag)
    assert book.order(step({"a": [7]}, {"a": (0, 3)}, {})) == StepOrders()
    assert book.close("a", 3, "stop") is None


@pytest.mark.parametrize("flag", [True, 1, {"x": 1}, ["x"], "k" * 257])
def test_whatever_a_client_sends_is_taken(flag: Any) -> None:
    book = OrderBook(BLOCK)
    book.open("a", flag)
    assert book.order(step({"a": [7]}, {"a": (0, 3)}, {})).new == [Span("a", None, 0, 3, [7])]


def test_the_end_is_told_with_the_number_of_tokens_that_were_read() -> None:
    book = OrderBook(BLOCK)
    book.open("a", "mine")
    book.order(step({"a": [7, 8]}, {"a": (0, 6)}, {}))
    assert book.close("a", 5, "stop") == 5  # a step ahead: one row too many was ordered
    assert book.order(step({}, {}, {})).finished == [("a", "mine", 5, "stop")]
    assert book.order(step({}, {}, {})).finished == []


def test_a_request_that_never_ran_ends_without_rows() -> None:
    book = opened("a")
    assert book.close("a", 100, "abort") == 0


# -- the worker's half, on the CPU --

BLOCKS, NAMES, WIDTH = 12, 2, 3
LAYOUT = RowLayout(("x", "y"), WIDTH, "float32", 4)


@pytest.fixture
def cache() -> torch.Tensor:
    """Every element tells where it lies."""
    return torch.arange(BLOCKS * NAMES * BLOCK * WIDTH, dtype=torch.float32).view(BLOCKS, NAMES, BLOCK, WIDTH)


class Wire:
    """A shipper, its ring and a consumer."""

    def __init__(self, path: Path, cache: torch.Tensor, block_size: int = BLOCK) -> None:
        self.tally = Tally()
        self.sender = RowSender(path, LAYOUT, 4096)
        self.shipper = Shipper(cache, block_size, self.sender, self.tally)
        self.receiver = RowReceiver(path)

    def rows(self, orders: StepOrders) -> list[tuple[str, int, torch.Tensor]]:
        """What arrives of a step, until the request ``end`` ends."""
        self.shipper.begin(orders)
        self.shipper.ship(orders)
        self.shipper.ship(StepOrders(finished=[("end", None, 0, "stop")]))
        arrived: list[tuple[str, int, torch.Tensor]] = []
        while True:
            for message in self.receiver.receive() or ():
                if isinstance(message, Finished):
                    return arrived
                flat = torch.frombuffer(bytearray(message.data), dtype=torch.float32)
                arrived.append((message.request, message.start, flat.view(message.count, NAMES, WIDTH)))


@pytest.fixture
def wire(tmp_path: Path, cache: torch.Tensor) -> Iterator[Wire]:
    wire = Wire(tmp_path / "rows.sock", cache)
    yield wire
    wire.receiver.close()
    wire.shipper.close()


def token(cache: torch.Tensor, block: int, offset: int) -> torch.Tensor:
    return cache[block, :, offset]


def test_rows_are_gathered_by_block_table(wire: Wire, cache: torch.Tensor) -> None:
    ((request, start, rows),) = wire.rows(StepOrders(new=[Span("a", None, 2, 9, [5, 3, 8])]))
    assert (request, start) == ("a", 2)
    places = [(5, 2), (5, 3), (3, 0), (3, 1), (3, 2), (3, 3), (8, 0)]
    assert torch.equal(rows, torch.stack([token(cache, *place) for place in places]))


def test_a_message_with_a_requests_first_rows_has_its_media(wire: Wire) -> None:
    sound = Media("audio", 0, 3, {})
    wire.shipper.ship(StepOrders(new=[Span("a", None, 0, 4, [3], (sound,)), Span("b", None, 4, 8, [2])]))
    messages = wire.receiver.receive() or ()
    assert [message.media for message in messages if isinstance(message, Rows)] == [(sound,), ()]


def test_a_steps_requests_share_a_message(wire: Wire, cache: torch.Tensor) -> None:
    orders = StepOrders(new=[Span("a", None, 0, 1, [5]), Span("b", None, 7, 8, [2])])
    (_, _, first), (_, start, second) = wire.rows(orders)
    assert torch.equal(first[0], token(cache, 5, 0))
    assert start == 7
    assert torch.equal(second[0], token(cache, 2, 3))


def test_long_prompts_are_cut_into_messages(wire: Wire, cache: torch.Tensor) -> None:
    arrived = wire.rows(
        StepOrders(old=[Span("a", None, 0, 40, list(range(1, 11)))], new=[Span("a", None, 40, 44, [11])])
    )
    assert len(arrived) > 2
    assert [start for _, start, _ in arrived] == sorted(start for _, start, _ in arrived)
    rows = torch.cat([rows for _, _, rows in arrived])
    assert torch.equal(rows, cache[1:12].transpose(1, 2).reshape(44, NAMES, WIDTH))
    counted = wire.tally.take()
    assert counted is not None
    assert counted.data[ROWS] == 44 * NAMES
    assert counted.data[BYTES] == 44 * LAYOUT.token_bytes


def test_a_kernels_smaller_blocks_are_found_too(tmp_path: Path, cache: torch.Tensor) -> None:
    wire = Wire(tmp_path / "rows.sock", cache, block_size=2 * BLOCK)  # the scheduler's block 3 is the cache's 6 and 7
    ((_, _, rows),) = wire.rows(StepOrders(new=[Span("a", None, 0, 8, [3])]))
    assert torch.equal(rows, cache[6:8].transpose(1, 2).reshape(8, NAMES, WIDTH))
    wire.receiver.close()
    wire.shipper.close()


def test_rows_that_nobody_takes_are_counted(wire: Wire) -> None:
    wire.receiver.close()
    while wire.sender.connected:
        pass
    wire.shipper.ship(StepOrders(new=[Span("a", None, 0, 3, [5])]))
    wire.shipper.begin(StepOrders(released=["a"]))
    counted = wire.tally.take()
    assert counted is not None
    assert counted.data[DROPPED] == 3 * NAMES
    assert counted.data[ROWS] == 0


def test_rows_that_a_consumer_leaves_behind_are_counted_as_dropped(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    publish = wire.sender.publish

    def too_late(message: Mapping[str, Any], slot: Slot | None = None) -> bool:
        wire.receiver.close()
        until(lambda: not wire.sender.connected)
        return publish(message, slot)

    monkeypatch.setattr(wire.sender, "publish", too_late)
    wire.shipper.ship(StepOrders(new=[Span("a", None, 0, 3, [5])]))
    wire.shipper.close()
    counted = wire.tally.take()
    assert counted is not None
    assert (counted.data[DROPPED], counted.data[ROWS], counted.data[BYTES]) == (3 * NAMES, 0, 0)


def test_what_is_counted_is_taken_once(wire: Wire) -> None:
    wire.tally.add(ROWS, 5)
    taken = wire.tally.take()
    assert taken is not None
    assert taken.data[ROWS] == 5
    assert wire.tally.take() is None


BURST = [Span(f"r{number}", None, 0, 44, list(range(1, 12))) for number in range(8)]  # twice the ring


def test_a_burst_beyond_the_ring_holds_up_no_step(wire: Wire) -> None:
    wire.shipper.begin(StepOrders(old=BURST))
    wire.shipper.begin(StepOrders())  # nobody gave a block up


def test_a_step_that_may_reuse_blocks_waits_for_their_rows(wire: Wire, cache: torch.Tensor) -> None:
    truth = cache[1:12].transpose(1, 2).reshape(44, NAMES, WIDTH).clone()
    wire.shipper.begin(StepOrders(old=BURST))

    def next_step() -> None:
        wire.shipper.begin(StepOrders(released=[span.request for span in BURST]))
        cache.zero_()
        wire.shipper.ship(StepOrders(finished=[("r7", None, 44, "stop")]))

    other = threading.Thread(target=next_step)
    other.start()
    arrived: dict[str, bytes] = {}
    for message in wire.receiver:
        if isinstance(message, Finished):
            break
        arrived[message.request] = arrived.get(message.request, b"") + bytes(message.data)
    other.join()
    assert arrived == {span.request: truth.numpy().tobytes() for span in BURST}


@pytest.mark.parametrize("capacity", [10, 127])
def test_a_ring_that_is_too_small_is_told_how_large_it_has_to_be(
    capacity: int, tmp_path: Path, cache: torch.Tensor
) -> None:
    layout = RowLayout(("x", "y"), WIDTH, "bfloat16", 2)  # 12 bytes a token: 96 of eight are no multiple of 64
    with pytest.raises(ValueError, match="at least 128"):
        Shipper(cache, BLOCK, RowSender(tmp_path / "small.sock", layout, capacity), Tally())
    Shipper(cache, BLOCK, RowSender(tmp_path / "rows.sock", layout, 128), Tally()).close()


def test_a_copy_that_fails_fails_the_step_that_needs_it(wire: Wire) -> None:
    wire.shipper.ship(StepOrders(new=[Span("a", None, 0, 4, [BLOCKS + 7])]))
    with pytest.raises(RuntimeError, match="could not be copied"):
        wire.shipper.begin(StepOrders(released=["a"]))


def test_a_message_that_cannot_be_sent_fails_a_step(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a copy has failed on the GPU, which shows when the postman waits for it."""

    def fails(*_: object) -> bool:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(wire.sender, "publish", fails)
    wire.shipper.ship(StepOrders(new=[Span("a", None, 0, 4, [3])]))
    until(lambda: wire.shipper._failure)
    with pytest.raises(RuntimeError, match="could not be copied"):
        wire.shipper.begin(StepOrders())


def test_an_assembler_makes_whole_payloads_of_it(wire: Wire) -> None:
    assembler = PayloadAssembler(LAYOUT)
    wire.shipper.ship(StepOrders(new=[Span("a", "key", 0, 44, list(range(1, 12)))]))
    wire.shipper.ship(StepOrders(finished=[("a", "key", 43, "length")]))
    payloads = (assembler.add(message) for message in wire.receiver)
    payload = next(payload for payload in payloads if payload is not None)
    assert payload.complete
    assert (payload.key, payload.tokens) == ("key", 43)


def test_ranks_number_their_messages_alike(tmp_path: Path, cache: torch.Tensor) -> None:
    alone, heard = Wire(tmp_path / "alone.sock", cache), Wire(tmp_path / "heard.sock", cache)
    alone.receiver.close()
    while alone.sender.connected:
        time.sleep(0.01)
    first, second = StepOrders(new=[Span("a", None, 0, 3, [5])]), StepOrders(new=[Span("b", None, 0, 3, [6])])
    for wire in (alone, heard):
        wire.shipper.ship(first)
    for wire in (alone, heard):
        wire.shipper.begin(StepOrders(released=["a"]))  # its copies have been started, or dropped
    alone.receiver = RowReceiver(alone.sender.path)
    for wire in (alone, heard):
        wire.shipper.ship(second)
    assert alone.receiver.receive(30)
    assert [heard.receiver.receive(30) and heard.receiver.number for _ in range(2)] == [1, alone.receiver.number]
    for wire in (alone, heard):
        wire.receiver.close()
        wire.shipper.close()


# -- rows between the GPU's cache and the host's ring --


class Copy:
    """An event of a GPU: done when it is waited for, or as it is told."""

    def __init__(self) -> None:
        self.done = self.waited = False

    def query(self) -> bool:
        return self.done

    def synchronize(self) -> None:
        self.waited = not self.done
        self.done = True


def test_gathered_rows_wait_for_earlier_copies_only_where_there_is_no_room() -> None:
    staging, copies = Staging(100), [Copy() for _ in range(4)]
    for copy in copies[:2]:
        staging.make_room(40)
        staging.keep(copy, torch.zeros(40, dtype=torch.uint8))
    assert not any(copy.waited for copy in copies)
    staging.make_room(40)
    assert [copy.waited for copy in copies] == [True, False, False, False]


def test_rows_larger_than_all_room_wait_for_all_copies_before_them() -> None:
    staging, copies = Staging(100), [Copy() for _ in range(2)]
    for copy in copies:
        staging.make_room(300)
        staging.keep(copy, torch.zeros(300, dtype=torch.uint8))
    assert [copy.waited for copy in copies] == [True, False]


def test_copied_rows_are_let_go_of() -> None:
    staging, copy = Staging(100), Copy()
    rows = torch.zeros(40, dtype=torch.uint8)
    staging.keep(copy, rows)
    kept = weakref.ref(rows)
    del rows
    staging.make_room(10)
    assert kept() is not None
    copy.done = True
    staging.make_room(10)
    assert kept() is None
    assert not copy.waited
