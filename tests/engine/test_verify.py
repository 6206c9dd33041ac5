"""The consumer of a verification."""

from __future__ import annotations

from pathlib import Path

from omnicfg.engine.transport import RowLayout, RowSender, rows_message
from omnicfg.engine.verify import _Consumer


def test_a_consumer_that_is_closed_keeps_neither_thread_nor_socket(tmp_path: Path) -> None:
    sender = RowSender(tmp_path / "rows.sock", RowLayout(("final",), 4, "float32", 4), 1024)
    consumer = _Consumer(sender.path)
    sender.publish(rows_message((), [("a", "key", 0, "stop")]))
    sender.close()
    consumer.close()
    assert [payload.key for payload in consumer.take("key", 1)] == ["key"], "what was under way is taken in"
    assert not consumer._thread.is_alive()
    assert consumer._receiver._socket.fileno() == -1  # type: ignore[attr-defined]
