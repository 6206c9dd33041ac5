"""What a verification says of rows, and its consumer."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from omnicfg.engine.transport import RowLayout, RowSender, rows_message
from omnicfg.engine.verify import Outcome, _Consumer, compare


@pytest.mark.parametrize("cached", [0, 1])
def test_rows_that_are_no_numbers_are_wrong(cached: int) -> None:
    torch = pytest.importorskip("torch", reason="comes with the extra cpu or cuda")
    rows = torch.tensor([[[math.nan, 1.0]], [[1.0, 1.0]]])
    (verdict,) = compare([Outcome("hit", (5, 6), cached, complete=True, rows=rows)], lambda _: torch.ones(2, 1, 2))
    assert (verdict.worst, verdict.worst_on_hits) == (math.inf, math.inf if cached else 0.0)


def test_a_consumer_that_is_closed_keeps_neither_thread_nor_socket(tmp_path: Path) -> None:
    sender = RowSender(tmp_path / "rows.sock", RowLayout(("final",), 4, "float32", 4), 1024)
    consumer = _Consumer(sender.path)
    sender.publish(rows_message((), [("a", "key", 0, "stop")]))
    sender.close()
    consumer.close()
    assert [payload.key for payload in consumer.take("key", 1)] == ["key"], "what was under way is taken in"
    assert not consumer._thread.is_alive()
    assert consumer._receiver._socket.fileno() == -1  # type: ignore[attr-defined]
