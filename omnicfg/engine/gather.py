"""From the paged cache to a consumer: a vLLM KV connector that only reads.

The scheduler's half keeps one number per request that wants its rows: how many tokens' rows it has ordered.
In every step it orders the rows that the step makes available, so that prompts, prefix hits, chunks,
generated tokens and what a preempted request computes again are all one case, and no row is sent twice. The
worker's half gathers them by block table and ships them.

When a row may be read: a block belongs to its request until that ends or is preempted. Rows that an earlier
step has written are gathered before the model runs, rows of this step behind it. (A request can hit blocks that
another one computes in the same step, so a hit alone does not make a row old.) A thread of its own orders the
gathering and waits for the consumer to make room, so a step that brings a burst of hits does not wait; what waits
is the first step that may give the blocks to somebody else, and only until the rows of the requests that gave them
up have been asked for. No block is held back, and nothing depends on how far the scheduler runs ahead.

On a GPU rows are gathered on the model's own stream, whose order is all that is needed, and copied to the host on
another one. They were gathered on that other one too, until a GPU was seen that leaves longer gaps between a CUDA
graph's kernels once that has been done: docs/benchmarks/engine.md, "Gaps between kernels".
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from vllm.config import VllmConfig, get_layers_from_vllm_config
from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorMetadata,
    KVConnectorRole,
    SupportsHMA,
)
from vllm.distributed.parallel_state import get_tensor_model_parallel_rank
from vllm.logger import init_logger

from omnicfg.engine.device_ring import DeviceRing
from omnicfg.engine.metrics import BYTES, CACHE_BYTES, DROPPED, ROWS, WAITED, PayloadMetrics, PayloadStats, Tally
from omnicfg.engine.paged_rows import PagedRows
from omnicfg.engine.spec import CONFIG_KEY, REQUEST_FLAG, SHARDS_KEY, PayloadRows, shard_path, socket_path
from omnicfg.engine.transport import Media, RowLayout, RowSender, Slot, aligned, rows_message

if TYPE_CHECKING:
    from vllm.distributed.kv_transfer.kv_connector.v1.metrics import KVConnectorPromMetrics, KVConnectorStats
    from vllm.forward_context import ForwardContext
    from vllm.multimodal.inputs import MultiModalFeatureSpec
    from vllm.v1.core.kv_cache_manager import KVCacheBlocks
    from vllm.v1.core.sched.output import SchedulerOutput
    from vllm.v1.kv_cache_interface import KVCacheConfig
    from vllm.v1.request import Request

logger = init_logger("vllm.omnicfg")  # under vLLM's own name, so that its handlers print it

KEY_LIMIT = 256
MIB = 2**20
_RING_LEAST, _RING_MOST = 32 * MIB, 192 * MIB
_MESSAGES_PER_RING = 8
_STEPS_PER_RING = 4  # of computed rows; a step that hits brings more


@dataclass(slots=True)
class Span:
    """Rows of the tokens ``start`` to ``stop`` of a request; ``blocks`` hold them, in order.

    The first span of a request brings the ``media`` of its prompt.
    """

    request: str
    key: str | None
    start: int
    stop: int
    blocks: list[int]
    media: tuple[Media, ...] = ()


@dataclass(slots=True)
class StepOrders(KVConnectorMetadata):
    """What the worker ships in one step: rows of earlier steps, rows of this step, requests that ended.

    ``released`` are requests whose blocks this step may give to others: their rows are gathered before it runs.
    """

    old: list[Span] = field(default_factory=list)
    new: list[Span] = field(default_factory=list)
    finished: list[tuple[str, str | None, int, str]] = field(default_factory=list)
    released: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Wanted:
    key: str | None
    media: tuple[Media, ...] = ()
    ordered: int = 0
    table: list[int] = field(default_factory=list)


class OrderBook:
    """The scheduler's half: which rows of which request have been ordered."""

    def __init__(self, block_size: int) -> None:
        self._block_size = block_size
        self._wanted: dict[str, _Wanted] = {}
        self._finished: list[tuple[str, str | None, int, str]] = []

    def open(self, request: str, flag: Any, media: tuple[Media, ...] = ()) -> None:
        """Note a new request; ``flag`` is what its ``kv_transfer_params`` say. Never raises: it comes from a client."""
        if not flag:
            return
        key = flag if isinstance(flag, str) and len(flag) <= KEY_LIMIT else None
        self._wanted[request] = _Wanted(key, media)

    def close(self, request: str, tokens: int, reason: str) -> int | None:
        """Note a request's end; the number of tokens whose rows were ordered, ``None`` if its rows are not wanted."""
        wanted = self._wanted.pop(request, None)
        if wanted is None:
            return None
        count = min(wanted.ordered, max(0, tokens))
        self._finished.append((request, wanted.key, count, reason))
        return count

    def order(self, step: SchedulerOutput) -> StepOrders:
        """The orders of one step."""
        finished, self._finished = self._finished, []
        orders = StepOrders(finished=finished, released=[request for request, *_ in finished])
        if not self._wanted:
            return orders
        orders.released += (step.preempted_req_ids or set()) & self._wanted.keys()
        self._follow_tables(step)
        fresh: set[int] | None = None
        for request, before, after in _progress(step):
            wanted = self._wanted.get(request)
            if wanted is None or after <= wanted.ordered:
                continue
            if before > wanted.ordered:
                fresh = self._fresh_blocks(step) if fresh is None else fresh
                self._add_span(orders.old, request, wanted, self._old_tokens(wanted, before, fresh))
            self._add_span(orders.new, request, wanted, after)
        return orders

    def _follow_tables(self, step: SchedulerOutput) -> None:
        """Keep block tables as workers do: whole for a request that (re)starts, then what is added."""
        running = step.scheduled_cached_reqs
        for new in step.scheduled_new_reqs:
            if (wanted := self._wanted.get(new.req_id)) is not None:
                wanted.table = list(new.block_ids[0])
        for request, added in zip(running.req_ids, running.new_block_ids, strict=True):
            wanted = self._wanted.get(request)
            if wanted is not None and added is not None:
                kept = [] if request in running.resumed_req_ids else wanted.table
                wanted.table = kept + added[0]

    def _add_span(self, spans: list[Span], request: str, wanted: _Wanted, stop: int) -> None:
        if stop > wanted.ordered:
            first, last = wanted.ordered // self._block_size, -(-stop // self._block_size)
            media = wanted.media if wanted.ordered == 0 else ()
            spans.append(Span(request, wanted.key, wanted.ordered, stop, wanted.table[first:last], media))
            wanted.ordered = stop

    def _fresh_blocks(self, step: SchedulerOutput) -> set[int]:
        """The blocks into which this step writes, for whatever request."""
        fresh: set[int] = set()
        table = step.kv_connector_block_state.resolve_block_ids
        for request, before, after in _progress(step):
            fresh.update(table(request)[0][before // self._block_size : -(-after // self._block_size)])
        return fresh

    def _old_tokens(self, wanted: _Wanted, before: int, fresh: set[int]) -> int:
        """How far the rows that are not ordered yet, up to ``before``, lie in blocks that this step does not write."""
        for index in range(wanted.ordered // self._block_size, -(-before // self._block_size)):
            if wanted.table[index] in fresh:
                return max(wanted.ordered, index * self._block_size)
        return before


@dataclass(slots=True, eq=False)
class _Job:
    """Spans of one step, to be gathered behind what is on ``stream``, the model's own on a GPU. ``issued`` is set when
    all of them have been gathered or dropped, on a GPU when that has been put on the stream.
    """

    spans: list[Span]
    stream: torch.cuda.Stream | None
    issued: threading.Event = field(default_factory=threading.Event)


class Staging:
    """Rows that have been gathered on a GPU, kept until they are copied to the host; of ``most`` bytes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: deque[tuple[torch.cuda.Event, torch.Tensor]] = deque()
        self._bytes = 0

    def make_room(self, size: int) -> None:
        """Wait, if need be, until ``size`` more bytes fit; let go of what has been copied."""
        while self._held and (self._bytes + size > self._most or self._held[0][0].query()):
            copied, rows = self._held.popleft()
            copied.synchronize()
            self._bytes -= rows.nbytes

    def keep(self, copied: torch.cuda.Event, rows: torch.Tensor) -> None:
        """Keep rows until the event."""
        self._held.append((copied, rows))
        self._bytes += rows.nbytes


_Parcel = tuple["torch.cuda.Event | None", dict[str, Any], "Slot | None"]


class Shipper:
    """The worker's half: gathers spans out of ``cache`` and hands them to ``sender``.

    ``cache`` has shape ``[blocks, rows, tokens per block, width]``; ``block_size`` is the scheduler's, which
    an attention kernel's blocks in ``cache`` may divide. Jobs go through two threads, in order: the packer finds room
    in the ring and starts copies, the postman tells the consumer when a copy is done.
    """

    def __init__(self, cache: torch.Tensor, block_size: int, sender: RowSender, tally: Tally) -> None:
        self._cache = cache
        self._block_size = block_size
        self._sender = sender
        self._tally = tally
        self._token_bytes = sender.layout.token_bytes
        self._most = sender.capacity // _MESSAGES_PER_RING // self._token_bytes
        if self._most == 0:
            least = aligned(_MESSAGES_PER_RING * self._token_bytes)
            raise ValueError(f"ring_bytes: {sender.capacity} are too few for rows of this model: at least {least}")
        self._ring = torch.frombuffer(sender.buffer, dtype=torch.uint8)
        self._pinned = False
        self._on_gpu = cache.device.type != "cpu"
        self._copies = torch.cuda.Stream(cache.device) if self._on_gpu else None
        self._staging = Staging(sender.capacity // 2)
        self._number = 0  # of the next message: the same on every rank that has a shard of these rows
        self._latest: dict[str, _Job] = {}  # of every request that may still have rows to copy
        self._failure: Exception | None = None
        self._jobs: queue.SimpleQueue[_Job | dict[str, Any] | None] = queue.SimpleQueue()
        self._outbox: queue.SimpleQueue[_Parcel | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=work, name=f"omnicfg-rows-{name}", daemon=True)
            for name, work in (("packer", self._pack), ("postman", self._post))
        ]
        for thread in self._threads:
            thread.start()

    def begin(self, orders: StepOrders) -> None:
        """Before the model runs: it may overwrite the blocks of ``released`` requests once their rows are gathered."""
        jobs = {job for request in orders.released if (job := self._latest.pop(request, None)) is not None}
        since = time.monotonic()
        for job in jobs:
            job.issued.wait()
        if jobs:
            self._tally.add(WAITED, time.monotonic() - since)
        if self._failure is not None:
            raise RuntimeError("payload rows could not be copied out of the KV cache") from self._failure
        self._ship(orders.old)

    def ship(self, orders: StepOrders) -> None:
        """After the model was launched: the rows of this step, then the ends."""
        self._ship(orders.new)
        if orders.finished:
            self._jobs.put(rows_message((), orders.finished))

    def close(self) -> None:
        """Send what is under way, then disconnect."""
        self._jobs.put(None)
        for thread in self._threads:
            thread.join(timeout=5)
        self._sender.close()

    def _ship(self, spans: list[Span]) -> None:
        if spans:
            job = _Job(spans, torch.cuda.current_stream() if self._on_gpu else None)
            self._latest.update((span.request, job) for span in spans)
            self._jobs.put(job)

    def _pack(self) -> None:
        if self._on_gpu:
            torch.cuda.set_device(self._cache.device)  # a thread begins at device 0
        while (item := self._jobs.get()) is not None:
            if isinstance(item, _Job):
                try:
                    self._copy_all(item)
                except Exception as error:  # noqa: BLE001 - whatever it is, the engine's own thread has to fail of it
                    self._failure = error
                item.issued.set()
            else:
                self._outbox.put((None, self._numbered(item), None))
        self._outbox.put(None)

    def _copy_all(self, job: _Job) -> None:
        media = {span.request: span.media for span in job.spans if span.media}
        for message, slots in _messages(job.spans, self._block_size, self._most):
            begun = {request: media[request] for request, _, start, _ in message if start == 0 and request in media}
            described = self._numbered(rows_message(message, media=begun))
            slot = self._sender.reserve(len(slots) * self._token_bytes)
            if slot is None:
                self._tally.add(DROPPED, len(slots) * self._cache.shape[1])
                continue
            self._outbox.put((self._copy(slots, slot, job.stream), described, slot))

    def _numbered(self, message: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        return {**message, "number": self._number}

    def _copy(self, slots: np.ndarray, slot: Slot, stream: torch.cuda.Stream | None) -> torch.cuda.Event | None:
        """Put the rows at these slots (block id times block size plus offset) into the ring; when they are there."""
        shape = (len(slots), self._cache.shape[1], self._cache.shape[3])
        target = self._ring_of(slot)[slot.offset : slot.offset + slot.size].view(self._cache.dtype).view(shape)
        places = torch.from_numpy(np.stack(np.divmod(slots, self._cache.shape[2])))
        if stream is None or self._copies is None:
            target.copy_(self._gather(places))
            return None
        copied = torch.cuda.Event(blocking=True)
        with torch.cuda.stream(stream):
            self._staging.make_room(slot.size)
            rows = self._gather(places.pin_memory().to(self._cache.device, non_blocking=True))
            if slot.on_gpu:
                target.copy_(rows)
                copied.record(stream)
                return copied
            gathered = stream.record_event()
        with torch.cuda.stream(self._copies):
            self._copies.wait_event(gathered)
            target.copy_(rows, non_blocking=True)
            copied.record(self._copies)
        self._staging.keep(copied, rows)
        return copied

    def _gather(self, places: torch.Tensor) -> torch.Tensor:
        """Rows ``[tokens, rows, width]`` of the tokens at ``places``: a row of blocks, and one of offsets in them."""
        return self._cache[places[0], :, places[1]]

    def _ring_of(self, slot: Slot) -> torch.Tensor:
        """The ring that the slot's consumer reads; the host's is pinned when the first one does."""
        if slot.on_gpu:
            assert isinstance(self._sender.gpu_ring, DeviceRing)
            return self._sender.gpu_ring.bytes
        if self._on_gpu and not self._pinned:
            self._pin()
            self._pinned = True
        return self._ring

    def _pin(self) -> None:
        """Let the GPU copy into the ring directly and in the background."""
        error = torch.cuda.cudart().cudaHostRegister(self._ring.data_ptr(), self._ring.numel(), 0)
        if int(error) != 0:
            logger.warning("The ring of payload rows could not be pinned (CUDA error %s): copies will wait", error)

    def _post(self) -> None:
        while (item := self._outbox.get()) is not None:
            event, message, slot = item
            try:
                if event is not None:
                    event.synchronize()
                published = self._sender.publish(message, slot)
            except Exception as error:  # noqa: BLE001 - as in the packer
                self._failure = error
            else:
                if slot is not None:
                    self._count(slot, published)

    def _count(self, slot: Slot, published: bool) -> None:
        rows = slot.size // self._token_bytes * self._cache.shape[1]
        self._tally.add(ROWS if published else DROPPED, rows)
        if published:
            self._tally.add(BYTES, slot.size * self._sender.shards)


class PayloadConnector(KVConnectorBase_V1, SupportsHMA):
    """vLLM's view of the two halves. It loads nothing, so the scheduler never waits for it."""

    def __init__(self, vllm_config: VllmConfig, role: KVConnectorRole, kv_cache_config: KVCacheConfig) -> None:
        super().__init__(vllm_config=vllm_config, role=role, kv_cache_config=kv_cache_config)
        groups = kv_cache_config.kv_cache_groups
        if len(groups) != 1:
            raise ValueError(
                f"payload rows need every layer in one KV cache group, vLLM made {len(groups)} for "
                "this model: serve it without payload rows"
            )
        self._block_size = groups[0].kv_cache_spec.block_size
        self._book = OrderBook(self._block_size)
        self._measures: Mapping[str, Sequence[str]] = self._kv_transfer_config.get_from_extra_config("measures", {})
        self._shipper: Shipper | None = None
        self._tally = Tally()

    # -- both halves --

    @property
    def requires_kv_delivery(self) -> bool:
        return False

    def get_kv_connector_stats(self) -> KVConnectorStats | None:
        return self._tally.take()

    @classmethod
    def build_kv_connector_stats(cls, data: dict[str, Any] | None = None) -> KVConnectorStats | None:
        return PayloadStats(data) if data is not None else PayloadStats()

    @classmethod
    def build_prom_metrics(
        cls,
        vllm_config: VllmConfig,
        metric_types: dict[Any, Any],
        labelnames: list[str],
        per_engine_labelvalues: dict[int, list[object]],
    ) -> KVConnectorPromMetrics:
        return PayloadMetrics(vllm_config, metric_types, labelnames, per_engine_labelvalues)

    # -- the scheduler's half --

    def on_new_request(self, request: Request) -> None:
        flag = (request.kv_transfer_params or {}).get(REQUEST_FLAG)
        self._book.open(request.request_id, flag, tuple(media_of(request.mm_features, self._measures)) if flag else ())

    def build_connector_meta(self, scheduler_output: SchedulerOutput) -> StepOrders:
        return self._book.order(scheduler_output)

    def request_finished(
        self,
        request: Request,
        block_ids: list[int],  # noqa: ARG002 - vLLM's interface
    ) -> tuple[bool, dict[str, Any] | None]:
        # The last token was sampled but never read, so it has no row.
        reason = request.get_finished_reason()
        tokens = self._book.close(request.request_id, request.num_tokens - 1, str(reason))
        if tokens is None:
            return False, None
        return False, {REQUEST_FLAG: {"request": request.request_id, "tokens": tokens}}

    def request_finished_all_groups(
        self, request: Request, block_ids: tuple[list[int], ...]
    ) -> tuple[bool, dict[str, Any] | None]:
        return self.request_finished(request, block_ids[0] if block_ids else [])

    def get_num_new_matched_tokens(
        self,
        request: Request,  # noqa: ARG002 - vLLM's interface
        num_computed_tokens: int,  # noqa: ARG002
    ) -> tuple[int, bool]:
        return 0, False

    def update_state_after_alloc(self, request: Request, blocks: KVCacheBlocks, num_external_tokens: int) -> None:
        """Nothing is loaded."""

    # -- the worker's half --

    def register_kv_caches(self, kv_caches: dict[str, torch.Tensor]) -> None:
        layers = get_layers_from_vllm_config(self._vllm_config, PagedRows, list(kv_caches))
        (name,) = layers
        cache = kv_caches[name]
        rank, shards = get_tensor_model_parallel_rank(), self._asked.get(SHARDS_KEY, 1)
        if rank >= shards:
            return  # the residual stream, so every row, is the same on all ranks
        # What every rank does alike is counted once.
        tally = self._tally if rank == 0 else Tally()
        tally.add(CACHE_BYTES, cache.numel() * cache.element_size())
        self._shipper = Shipper(cache, self._block_size, self._sender(cache, rank, shards), tally)

    def bind_connector_metadata(self, connector_metadata: KVConnectorMetadata) -> None:
        super().bind_connector_metadata(connector_metadata)
        if self._shipper is not None:
            assert isinstance(connector_metadata, StepOrders)
            self._shipper.begin(connector_metadata)

    def wait_for_save(self) -> None:
        if self._shipper is not None and self.has_connector_metadata():
            orders = self._get_connector_metadata()
            assert isinstance(orders, StepOrders)
            self._shipper.ship(orders)

    def start_load_kv(self, forward_context: ForwardContext, **kwargs: Any) -> None:
        """Nothing is loaded."""

    def wait_for_layer_load(self, layer_name: str) -> None:
        """Nothing is loaded."""

    def save_kv_layer(self, layer_name: str, kv_layer: torch.Tensor, attn_metadata: Any, **kwargs: Any) -> None:
        """Rows are written by the model itself."""

    def shutdown(self) -> None:
        if self._shipper is not None:
            self._shipper.close()
            self._shipper = None

    @property
    def _asked(self) -> Mapping[str, Any]:
        asked: Mapping[str, Any] = self._vllm_config.additional_config[CONFIG_KEY]
        return asked

    def _sender(self, cache: torch.Tensor, rank: int, shards: int) -> RowSender:
        extra = self._kv_transfer_config.get_from_extra_config
        payload = PayloadRows.from_config(self._asked)
        dtype = str(cache.dtype).removeprefix("torch.")
        layout = RowLayout(payload.names, cache.shape[3], dtype, cache.element_size())
        # vLLM makes independent engines of the replicas of a dense model: only the index is left of their kinship.
        replica = self._vllm_config.parallel_config.data_parallel_index
        path = shard_path(socket_path(extra("socket", None), int(extra("replicas", 1)), replica), rank)
        tokens = self._vllm_config.scheduler_config.max_num_batched_tokens
        fitting = min(max(_STEPS_PER_RING * tokens * layout.token_bytes, _RING_LEAST), _RING_MOST)
        capacity = int(extra("ring_bytes", fitting))
        offer = partial(DeviceRing, capacity, cache.device) if cache.is_cuda else None
        sender = RowSender(Path(path), layout, capacity, float(extra("stall_seconds", 10.0)), offer, shards)
        logger.info("Payload rows %s, %d B per token, at %s", payload.names, layout.token_bytes, path)
        return sender


def media_of(features: Iterable[MultiModalFeatureSpec], measures: Mapping[str, Sequence[str]]) -> Iterator[Media]:
    """The media of a request; each of ``measures`` is what the first of these fields that its processor gave says."""
    for feature in features:
        given = feature.data or {}
        told = {
            name: [float(number) for number in given[present[0]].data.flatten().tolist()]
            for name, fields in measures.items()
            if (present := [field for field in fields if field in given])
        }
        yield Media(feature.modality, feature.mm_position.offset, feature.mm_position.length, told)


def _progress(step: SchedulerOutput) -> Iterator[tuple[str, int, int]]:
    """(request, tokens computed before this step, tokens computed after it) for every scheduled request."""
    scheduled, running = step.num_scheduled_tokens, step.scheduled_cached_reqs
    for new in step.scheduled_new_reqs:
        yield new.req_id, new.num_computed_tokens, new.num_computed_tokens + scheduled[new.req_id]
    for request, before in zip(running.req_ids, running.num_computed_tokens, strict=True):
        yield request, before, before + scheduled[request]


def _messages(
    spans: Iterable[Span], block_size: int, most: int
) -> Iterator[tuple[list[tuple[str, str | None, int, int]], np.ndarray]]:
    """Messages of at most ``most`` tokens: the rows' description, and the slots at which they lie."""
    described: list[tuple[str, str | None, int, int]] = []
    slots: list[np.ndarray] = []
    room = most
    for span in spans:
        places = _slots(span, block_size)
        start = span.start
        while len(places):
            taken, places = places[:room], places[room:]
            described.append((span.request, span.key, start, len(taken)))
            slots.append(taken)
            start += len(taken)
            room -= len(taken)
            if room == 0:
                yield described, np.concatenate(slots)
                described, slots, room = [], [], most
    if described:
        yield described, np.concatenate(slots)


def _slots(span: Span, block_size: int) -> np.ndarray:
    """The slots of a span's tokens."""
    skipped = span.start % block_size
    if len(span.blocks) == 1:  # a generated token, mostly
        first = span.blocks[0] * block_size + skipped
        return np.arange(first, first + span.stop - span.start, dtype=np.int64)
    starts = np.asarray(span.blocks, dtype=np.int64) * block_size
    return (starts[:, None] + np.arange(block_size)).ravel()[skipped : skipped + span.stop - span.start]
