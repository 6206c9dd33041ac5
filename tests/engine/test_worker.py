"""A stage's process: what comes in, what goes out, and what a failing step takes with it."""

from __future__ import annotations

import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from omnicfg.engine import worker as module
from omnicfg.engine.stages import Chunk, Ended, RequestError, StageOptions
from omnicfg.engine.transport import (
    Finished,
    Media,
    Message,
    RowLayout,
    RowReceiver,
    RowSender,
    TransportError,
    rows_message,
)
from omnicfg.engine.worker import Job, Worker
from omnicfg.serve.processes import living
from tests.patience import PATIENCE_S, until

np = pytest.importorskip("numpy")

LAYOUT = RowLayout(("numbers",), 2, "int32", 4)


class Doubler:
    """Hands on each row twice as large; a row of -1 makes its step fail, of -2 and -3 asks for too much memory.

    As a Talker, it cannot go on with a request whose rows may have been lost.
    """

    layout = LAYOUT
    frame_rows = 1

    def __init__(self) -> None:
        self.open_keys: dict[str, list[Any]] = {}
        self.done: dict[str, int] = {}
        self.total: dict[str, int] = {}
        self.cut: set[str] = set()
        self.credits: list[tuple[str, int]] = []
        self.texts: list[tuple[str, list[int], bool, bool]] = []
        self.seen: list[tuple[str, tuple[Media, ...]]] = []

    def facts(self) -> dict[str, Any]:
        return {"factor": 2}

    def open(self, key: str, options: Mapping[str, Any]) -> None:
        if options["voice"] == "nobody":
            raise RequestError("there is no such voice")
        self.open_keys[key], self.done[key] = [], 0

    def text(self, key: str, ids: Sequence[int], *, prompt: bool, last: bool) -> None:
        self.texts.append((key, list(ids), prompt, last))

    def media(self, key: str, media: Sequence[Media]) -> None:
        self.seen.append((key, tuple(media)))

    def rows(self, key: str, start: int, rows: Any) -> None:
        if key in self.open_keys:
            self.open_keys[key].extend(rows.reshape(-1, 2).tolist())

    def rows_end(self, key: str, count: int) -> None:
        self.total[key] = count

    def rows_cut(self) -> None:
        self.cut |= {key for key in self.open_keys if key not in self.total}

    def credit(self, key: str, frames: int) -> None:
        self.credits.append((key, frames))

    def drop(self, key: str) -> None:
        self.open_keys.pop(key, None)

    def open_requests(self) -> int:
        return len(self.open_keys)

    def ready(self) -> list[str]:
        waiting = [key for key, rows in self.open_keys.items() if rows or self.total.get(key) == self.done[key]]
        return [*(key for key in self.cut if key in self.open_keys), *waiting][:1]

    def run(self, keys: Sequence[str]) -> tuple[list[Chunk], list[Ended]]:
        [key] = keys
        if key in self.cut:
            raise RequestError("rows were lost")
        rows, self.open_keys[key] = self.open_keys[key], []
        if [-1, -1] in rows:
            raise RuntimeError("a bad row")
        if [-2, -2] in rows:
            np.empty(2**58)
        if [-3, -3] in rows:
            import_module("torch").empty(2**50)
        start = self.done[key]
        self.done[key] += len(rows)
        chunks = [Chunk(key, start, 2 * np.array(rows, dtype=np.int32)[:, None])] if rows else []
        if self.total.get(key) != self.done[key]:
            return chunks, []
        self.drop(key)
        return chunks, [Ended(key, self.done[key], self.done[key], "stop")]


class Rig:
    """A worker between a sender, a receiver and a front."""

    def __init__(self, folder: Path, capacity: int = 2**16, stall_seconds: float = PATIENCE_S) -> None:
        self.executor = Doubler()
        self.sender = RowSender(folder / "in", LAYOUT, capacity, stall_seconds)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(folder / "control"))
        listener.listen(1)
        options = StageOptions(folder, {})
        job = Job(1, "talker", "x", options, str(folder / "in"), str(folder / "out"), str(folder / "control"))
        self.thread = threading.Thread(target=Worker(job, self.executor).run, daemon=True)
        self.thread.start()
        self.front, _ = listener.accept()
        listener.close()
        self.events: queue.Queue[dict[str, Any]] = queue.Queue()
        threading.Thread(target=self._hear, daemon=True).start()
        self.event("ready")
        self.receiver: RowReceiver | None = RowReceiver(folder / "out")

    def _hear(self) -> None:
        with self.front.makefile("r") as lines:
            for line in lines:
                self.events.put(json.loads(line))

    def tell(self, what: str, key: str, **more: Any) -> None:
        self.front.sendall((json.dumps({"do": what, "key": key, **more}) + "\n").encode())

    def open(self, key: str, **options: Any) -> None:
        self.tell("open", key, options={"voice": "ethan", **options})
        self.event("opened")

    def event(self, *names: str) -> dict[str, Any]:
        """The next of these."""
        deadline = time.monotonic() + PATIENCE_S
        while (event := self.events.get(timeout=PATIENCE_S))["event"] not in names:
            assert time.monotonic() < deadline, f"nothing is told of {names}"  # there is a beat every second
        return event

    def send(self, key: str, start: int, rows: list[list[int]], media: tuple[Media, ...] = ()) -> bool:
        """Whether there was somebody to take them."""
        data = np.array(rows, dtype=np.int32).tobytes()
        slot = self.sender.reserve(len(data))
        if slot is None:
            return False
        self.sender.buffer[slot.offset : slot.offset + len(data)] = data
        return self.sender.publish(rows_message([(key, key, start, len(rows))], media={key: media}), slot)

    def end(self, key: str, count: int) -> bool:
        return self.sender.publish(rows_message((), [(key, key, count, "stop")]))

    def received(self, count: int) -> list[tuple[str, Any]]:
        """The next messages: rows as lists, ends as they are."""
        found: list[tuple[str, Any]] = []
        assert self.receiver is not None
        deadline = time.monotonic() + PATIENCE_S
        while len(found) < count and time.monotonic() < deadline:
            found += [(str(message.key), _shown(message)) for message in self.receiver.receive(0.1) or []]
        return found

    def close(self) -> None:
        self.front.shutdown(socket.SHUT_RDWR)
        self.front.close()
        self.thread.join(PATIENCE_S)
        if self.receiver is not None:
            self.receiver.close()
        self.sender.close()


def _shown(message: Message) -> Any:
    if isinstance(message, Finished):
        return message.tokens, message.reason
    return np.frombuffer(bytes(message.data), dtype=np.int32).reshape(-1, 2).tolist()


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = Rig(tmp_path)
    yield made
    made.close()


def test_rows_come_in_and_go_out_to_their_end(rig: Rig) -> None:
    rig.open("a")
    rig.send("a", 0, [[1, 2], [3, 4]])
    assert rig.received(1) == [("a", [[2, 4], [6, 8]])]
    rig.end("a", 2)
    assert rig.received(1) == [("a", (2, "stop 2"))]


def test_what_the_front_says_reaches_the_executor(rig: Rig) -> None:
    rig.open("a")
    rig.tell("text", "a", ids=[1, 2], prompt=True, last=False)
    rig.tell("credit", "a", frames=7)
    rig.tell("drop", "a")
    rig.open("b")  # everything before it has arrived
    assert rig.executor.texts == [("a", [1, 2], True, False)]
    assert rig.executor.credits == [("a", 7)]
    assert list(rig.executor.open_keys) == ["b"]


def test_media_come_before_the_first_rows(rig: Rig) -> None:
    picture = Media("image", 3, 6, {"grid": [1.0, 4.0, 6.0]})
    rig.open("a")
    rig.send("a", 0, [[1, 2]], media=(picture,))
    assert rig.received(1) == [("a", [[2, 4]])]
    rig.send("a", 1, [[3, 4]])
    assert rig.received(1) == [("a", [[6, 8]])]
    assert rig.executor.seen == [("a", (picture,))]


def test_a_request_that_is_refused_is_told_so(rig: Rig) -> None:
    rig.tell("open", "a", options={"voice": "nobody"})
    assert rig.event("refused")["message"] == "there is no such voice"
    assert rig.executor.open_requests() == 0


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (-1, "stage 1 (talker) failed: RuntimeError: a bad row"),
        (-2, "stage 1 (talker) ran out of memory"),
        pytest.param(
            -3,
            "stage 1 (talker) ran out of memory",
            marks=pytest.mark.skipif(find_spec("torch") is None, reason="comes with the extra cpu or cuda"),
        ),
    ],
)
def test_a_step_that_fails_takes_its_requests_down_and_no_other(row: int, told: str, rig: Rig) -> None:
    rig.open("good")
    rig.open("bad")
    rig.send("bad", 0, [[row, row]])
    failed = rig.event("failed")
    assert (failed["key"], failed["message"]) == ("bad", told)
    rig.send("good", 0, [[5, 5]])
    assert rig.received(1) == [("good", [[10, 10]])]
    assert list(rig.executor.open_keys) == ["good"]


def test_rows_of_a_request_that_is_not_open_are_nothing(rig: Rig) -> None:
    rig.send("unknown", 0, [[1, 1]])
    rig.end("unknown", 1)
    rig.open("a")
    rig.send("a", 0, [[2, 2]])
    assert rig.received(1) == [("a", [[4, 4]])]


def test_it_says_what_nobody_takes(rig: Rig) -> None:
    rig.open("a")
    assert rig.receiver is not None
    rig.receiver.close()
    rig.receiver = None
    rig.send("a", 0, [[1, 1]])
    assert rig.event("untaken")["key"] == "a"


def test_rows_that_are_to_be_kept_are_told_at_the_end(rig: Rig) -> None:
    rig.open("a", keep=1)
    rig.open("b", keep=2)
    rig.send("a", 0, [[1, 2]])
    rig.send("a", 1, [[3, 4]])
    rig.end("a", 2)
    assert rig.event("kept")["rows"] == [[2, 4], [6, 8]]
    rig.send("b", 0, [[1, 2]])
    rig.end("b", 1)
    until(lambda: ("b", (1, "stop 1")) in rig.received(1))
    assert all(event["event"] != "kept" for event in list(rig.events.queue)), "another stage keeps those"


def test_a_new_process_before_it_is_found(rig: Rig, tmp_path: Path) -> None:
    rig.sender.close()
    rig.event("cut")
    rig.sender = RowSender(tmp_path / "in", LAYOUT, 2**16)
    rig.event("ready")
    rig.open("a")
    rig.send("a", 0, [[1, 1]])
    assert rig.received(1) == [("a", [[2, 2]])]


def test_a_request_whose_end_was_lost_while_the_stage_did_not_read_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stage before has given up on this one, and nobody but this one knows who waits for what it has to say."""
    reads, receive = threading.Event(), RowReceiver.receive

    def stalled(receiver: RowReceiver, timeout: float | None = None) -> list[Message] | None:
        reads.wait(PATIENCE_S)
        return receive(receiver, timeout)

    reads.set()
    monkeypatch.setattr(RowReceiver, "receive", stalled)
    rig = Rig(tmp_path, capacity=256, stall_seconds=0.2)  # of four messages with a row each
    rig.open("whole")
    rig.send("whole", 0, [[1, 1]])
    rig.end("whole", 1)
    rig.open("lost")
    assert rig.received(2) == [("whole", [[2, 2]]), ("whole", (1, "stop 1"))]
    reads.clear()
    until(lambda: not rig.send("lost", 0, [[1, 1]]))
    assert not rig.end("lost", 1), "nobody is there to be told"
    reads.set()
    told = {event["event"]: event for event in (rig.event("failed", "ready"), rig.event("failed", "ready"))}
    assert (told["failed"]["key"], told["failed"]["message"]) == ("lost", "rows were lost")
    assert "ready" in told
    rig.open("next")
    rig.send("next", 0, [[3, 3]])
    until(lambda: ("next", [[6, 6]]) in rig.received(1))
    rig.close()


def test_a_request_that_is_opened_while_the_stage_hears_nothing_is_turned_away(rig: Rig, tmp_path: Path) -> None:
    rig.open("before")
    rig.sender.close()
    rig.event("cut")
    rig.tell("open", "a", options={"voice": "ethan"})
    failed = {event["key"]: event["message"] for event in (rig.event("failed"), rig.event("failed"))}
    assert failed == {"before": "rows were lost", "a": "stage 1 (talker) cannot hear the stage before it at present"}
    rig.sender = RowSender(tmp_path / "in", LAYOUT, 2**16)
    rig.event("ready")
    rig.open("a")


def test_it_reports_while_it_has_nothing_to_do(rig: Rig) -> None:
    rig.open("a")
    rig.send("a", 0, [[1, 1], [2, 2]])
    until(lambda: {"steps": 1, "frames": 2, "open": 1}.items() <= rig.event("beat").items())


def test_it_ends_with_its_front(rig: Rig) -> None:
    rig.front.shutdown(socket.SHUT_RDWR)
    rig.thread.join(PATIENCE_S)
    assert not rig.thread.is_alive()
    assert not rig.sender.path.with_name("out").exists(), "no socket is left"


def test_it_ends_with_a_front_that_died_within_a_word(rig: Rig) -> None:
    rig.front.sendall(b'{"do": "open", "key": "a", "opt')
    rig.front.shutdown(socket.SHUT_RDWR)
    rig.thread.join(PATIENCE_S / 4)
    assert not rig.thread.is_alive()


def test_it_ends_where_rows_cannot_be_read_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stage that computes on, deaf to rows, would let every request wait for ever."""

    def lost(*_: object) -> None:
        raise RuntimeError("cudaMemcpyAsync: cudaErrorIllegalAddress")

    told: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", told.append)
    rig = Rig(tmp_path)
    monkeypatch.setattr(RowReceiver, "_rows", lost)
    rig.send("a", 0, [[1, 1]])
    rig.thread.join(PATIENCE_S / 4)
    assert not rig.thread.is_alive()
    assert "cudaErrorIllegalAddress" in str(until(lambda: told)[0].exc_value)
    rig.close()


STAGE = (sys.executable, "-c", f"from {__name__} import main; main()")
"""A process as the front starts it, whose executor is the one above."""
SHORT_LIVED = "import subprocess, sys, time; print(subprocess.Popen(sys.argv[1:]).pid, flush=True); time.sleep(600)"


def main() -> None:
    vars(module)["make"] = lambda *_: Doubler()
    sys.exit(module.main())


@contextmanager
def control_of(folder: Path) -> Iterator[tuple[socket.socket, str]]:
    """Where a stage finds its front, with all that it is told; the stage before has nothing to hand on."""
    sender = RowSender(folder / "in", LAYOUT, 2**16)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "control"))
        listener.listen(1)
        options = StageOptions(folder, {})
        paths = (str(folder / "in"), str(folder / "out"), str(folder / "control"))
        yield listener, Job(1, "talker", "x", options, *paths).to_json()
    sender.close()


def test_stop_signals_are_its_fronts_to_follow(tmp_path: Path) -> None:
    """Everybody may be sent them at once, and what it is at is to be finished."""
    with control_of(tmp_path) as (listener, job), subprocess.Popen(STAGE, stdin=subprocess.PIPE, text=True) as stage:
        assert stage.stdin is not None
        stage.stdin.write(job)
        stage.stdin.close()
        front, _ = listener.accept()
        with front, front.makefile("r") as lines:
            while json.loads(lines.readline())["event"] != "ready":
                pass
            stage.send_signal(signal.SIGTERM)
            stage.send_signal(signal.SIGINT)
            opening = {"do": "open", "key": "a", "options": {"voice": "ethan"}}
            front.sendall((json.dumps(opening) + "\n").encode())
            while (told := json.loads(lines.readline() or "{}")).get("event") == "beat":
                pass
            assert told.get("event") == "opened"
            front.shutdown(socket.SHUT_RDWR)
        assert stage.wait(PATIENCE_S) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="told by Linux alone")
def test_it_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    """Whatever it is at, and although its socket is still open somewhere."""
    command = [sys.executable, "-c", SHORT_LIVED, *STAGE]
    with (
        control_of(tmp_path) as (listener, job),
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent,
    ):
        assert parent.stdin is not None
        assert parent.stdout is not None
        parent.stdin.write(job)
        parent.stdin.close()
        stage = int(parent.stdout.readline())
        front, _ = listener.accept()
        with front:
            os.kill(stage, signal.SIGSTOP)
            parent.kill()
            try:
                until(lambda: stage not in [process.pid for process in living()])
            finally:
                with suppress(ProcessLookupError):
                    os.kill(stage, signal.SIGKILL)


def test_a_job_travels_as_json(tmp_path: Path) -> None:
    job = Job(1, "talker", "codec-talker", StageOptions(tmp_path, {"module": "X"}, limit=3), "a", "b", "c")
    assert Job.from_json(job.to_json()) == job


@pytest.mark.parametrize(
    ("error", "tries"),
    [
        (RuntimeError("cudaIpcOpenMemHandle: cudaErrorPeerAccessUnsupported"), ["the GPU's", "the host's"]),
        (TransportError("no engine listens"), ["the GPU's"]),
    ],
    ids=["cannot be mapped", "nobody is there"],
)
def test_the_hosts_ring_is_for_a_gpus_that_cannot_be_mapped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: RuntimeError, tries: list[str]
) -> None:
    made: list[str] = []

    def receiver(path: Path, timeout: float, mapped: object = None) -> object:
        made.append("the GPU's" if mapped else "the host's")
        if mapped:
            raise error
        return "connected"

    monkeypatch.setattr("omnicfg.engine.worker.connect", receiver)
    monkeypatch.setitem(sys.modules, "omnicfg.engine.device_ring", SimpleNamespace(MappedRing=object))
    options = StageOptions(tmp_path, {}, device="cuda")
    job = Job(1, "talker", "x", options, str(tmp_path / "in"), str(tmp_path / "out"), str(tmp_path / "control"))
    worker = Worker(job, Doubler())
    with pytest.raises(TransportError) if len(tries) == 1 else nullcontext():
        assert worker._connected() == "connected"  # type: ignore[comparison-overlap]
    worker._sender.close()
    assert made == tries
