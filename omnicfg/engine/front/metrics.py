"""Counters of the stages behind the Thinker, beside vLLM's own on ``/metrics``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from omnicfg.engine.front.desk import Desk

_FIRST_AUDIO_S = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0)


class Metrics:
    """What happened since the start. ``outcome`` is ok, refused, failed or aborted."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "omnicfg:speech_requests", "Requests answered in speech.", ["outcome"], registry=self._registry
        )
        self.first_audio = Histogram(
            "omnicfg:time_to_first_audio_seconds",
            "From a request's arrival to its first samples.",
            buckets=_FIRST_AUDIO_S,
            registry=self._registry,
        )
        self.audio_seconds = Counter(
            "omnicfg:audio_seconds", "Seconds of audio handed to clients.", registry=self._registry
        )
        self.restarts = Counter(
            "omnicfg:stage_restarts", "Stages that were started again.", ["stage"], registry=self._registry
        )
        self._registry.register(self)

    def collect(self) -> Iterator[Any]:
        """The stages as they report themselves."""
        steps = CounterMetricFamily("omnicfg:stage_steps", "Steps computed.", labels=["stage"])
        frames = CounterMetricFamily("omnicfg:stage_frames", "Codec frames handed on.", labels=["stage"])
        running = GaugeMetricFamily("omnicfg:stage_open_requests", "Requests a stage holds.", labels=["stage"])
        up = GaugeMetricFamily("omnicfg:stage_up", "Whether a stage takes requests.", labels=["stage"])
        for link in self._desk.links:
            steps.add_metric([link.name], link.beat.get("steps", 0))
            frames.add_metric([link.name], link.beat.get("frames", 0))
            running.add_metric([link.name], link.beat.get("open", 0))
            up.add_metric([link.name], self._desk.is_up(link))
        speeches = GaugeMetricFamily("omnicfg:open_speeches", "Requests that are being answered in speech.")
        speeches.add_metric([], len(self._desk))
        yield from (steps, frames, running, up, speeches)

    def text(self) -> bytes:
        """Prometheus' text format."""
        text: bytes = generate_latest(self._registry)
        return text
