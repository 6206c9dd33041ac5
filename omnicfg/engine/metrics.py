"""Counters of payload rows, on their way from the worker through vLLM's scheduler to ``/metrics``."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from vllm.config import VllmConfig
from vllm.distributed.kv_transfer.kv_connector.v1.metrics import (
    KVConnectorPromMetrics,
    KVConnectorStats,
    PromMetric,
    PromMetricT,
)
from vllm.v1.metrics.utils import create_metric_per_engine

ROWS, BYTES, DROPPED, WAITED, CACHE_BYTES = "rows", "bytes", "dropped_rows", "wait_seconds", "cache_bytes"

_COUNTERS = {
    ROWS: ("omnicfg:payload_rows", "Payload rows (one per token and kept row) gathered for a consumer."),
    BYTES: ("omnicfg:payload_bytes", "Bytes of payload rows gathered for a consumer."),
    DROPPED: ("omnicfg:payload_dropped_rows", "Payload rows that a request asked for and no consumer took."),
    WAITED: (
        "omnicfg:payload_wait_seconds",
        "Seconds a step waited for rows to leave before their blocks could be reused.",
    ),
}


@dataclass
class PayloadStats(KVConnectorStats):
    """What happened since the last report; ``cache_bytes`` is a level, the rest add up."""

    data: dict[str, Any] = field(default_factory=lambda: dict.fromkeys(_COUNTERS, 0))

    def reset(self) -> None:
        self.data = dict.fromkeys(_COUNTERS, 0)

    def aggregate(self, other: KVConnectorStats) -> KVConnectorStats:
        for name in _COUNTERS:
            self.data[name] += other.data.get(name, 0)
        if CACHE_BYTES in other.data:
            self.data[CACHE_BYTES] = other.data[CACHE_BYTES]
        return self

    def reduce(self) -> dict[str, int | float]:
        return {f"payload {name}": self.data[name] for name in _COUNTERS}

    def is_empty(self) -> bool:
        return not any(self.data.values())


class Tally:
    """Counts what happens, from any thread, until vLLM asks for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stats = PayloadStats()

    def add(self, name: str, amount: float) -> None:
        """Count ``amount`` more of ``name``."""
        with self._lock:
            self._stats.data[name] = self._stats.data.get(name, 0) + amount

    def take(self) -> PayloadStats | None:
        """What was counted, leaving nothing behind; ``None`` where there is nothing to tell."""
        with self._lock:
            if self._stats.is_empty():
                return None
            taken, self._stats = self._stats, PayloadStats()
            return taken


class PayloadMetrics(KVConnectorPromMetrics):
    """The same counters in Prometheus, one series per engine."""

    def __init__(
        self,
        vllm_config: VllmConfig,
        metric_types: dict[type[PromMetric], type[PromMetricT]],
        labelnames: list[str],
        per_engine_labelvalues: dict[int, list[object]],
    ) -> None:
        super().__init__(vllm_config, metric_types, labelnames, per_engine_labelvalues)
        self._counters = {
            name: self._per_engine(self._counter_cls, *described) for name, described in _COUNTERS.items()
        }
        self._cache_bytes = self._per_engine(
            self._gauge_cls,
            "omnicfg:payload_cache_bytes",
            "Bytes of the paged KV cache that hold payload rows, used or not.",
        )

    def observe(self, transfer_stats_data: dict[str, Any], engine_idx: int = 0) -> None:
        for name, counter in self._counters.items():
            counter[engine_idx].inc(transfer_stats_data.get(name, 0))
        if CACHE_BYTES in transfer_stats_data:
            self._cache_bytes[engine_idx].set(transfer_stats_data[CACHE_BYTES])

    def _per_engine(self, metric: Any, name: str, documentation: str) -> dict[int, Any]:
        series = metric(name=name, documentation=documentation, labelnames=self._labelnames)
        made: dict[int, Any] = create_metric_per_engine(series, self.per_engine_labelvalues)
        return made
