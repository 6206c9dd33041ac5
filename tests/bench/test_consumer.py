"""The consumer of hidden states: what it takes in, what it counts, and that it goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnicfg.bench import consumer as module
from omnicfg.bench.consumer import Consumer
from omnicfg.engine.transport import RowLayout, RowSender, rows_message
from tests.patience import until

LAYOUT = RowLayout(("final",), 4, "float32", 4)


def send(sender: RowSender, request: str, tokens: int, sent: int | None = None) -> None:
    count = tokens if sent is None else sent
    slot = sender.reserve(count * LAYOUT.token_bytes)
    assert slot is not None
    sender.publish(rows_message([(request, None, 0, count)], [(request, None, tokens, "stop")]), slot)


def test_payloads_and_bytes_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sender = RowSender(tmp_path / "rows.sock", LAYOUT, 4096)
    try:
        with Consumer(sender.path) as consumer:
            until(lambda: sender.connected)
            send(sender, "a", 3)
            before = {"complete": 0, "incomplete": 0, "bytes": 0}
            assert consumer.since(before, 1) == {"complete": 1, "incomplete": 0, "bytes": 48}
            send(sender, "b", 3, sent=2)
            send(sender, "c", 1)
            assert consumer.since(consumer.counts(), 0) is not None
            told = consumer.since({"complete": 1, "incomplete": 0, "bytes": 48}, 2)
            assert told == {"complete": 1, "incomplete": 1, "bytes": 48}
            monkeypatch.setattr(module, "WAIT_S", 0.05)
            assert consumer.since(consumer.counts(), 1) == {"complete": 0, "incomplete": 0, "bytes": 0}
    finally:
        sender.close()
