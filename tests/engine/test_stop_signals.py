"""A stop signal that everybody gets ends no worker: neither vLLM's, which its engine ends, nor one of ours."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest

from omnicfg.engine import stop_signals

NUMBERS = (signal.SIGINT, signal.SIGTERM)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in NUMBERS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_worker_ignores_them_once_it_watches_its_engine() -> None:
    watched: list[tuple[Any, ...]] = []
    watch = stop_signals._then_ignoring(lambda *given: watched.append(given))
    before = [signal.getsignal(number) for number in NUMBERS]
    watch("worker", None, "asked")
    assert [signal.getsignal(number) for number in NUMBERS] == before, "nothing else would end it"
    watch("worker", "pipe", "asked")
    assert [signal.getsignal(number) for number in NUMBERS] == [signal.SIG_IGN] * 2
    assert watched == [("worker", None, "asked"), ("worker", "pipe", "asked")]


def serve(engines: Any, pipe: Any) -> None:
    """As vLLM's own ``worker_main`` begins, of a worker without a model: until its engine's end of the pipe is gone."""
    from vllm.v1.executor.multiproc_executor import WorkerProc

    def end(*_: object) -> None:
        raise SystemExit(3)

    for number in NUMBERS:
        signal.signal(number, end)
    engines.close()  # it is forked: this process has it too
    worker = WorkerProc.__new__(WorkerProc)
    worker.rpc_broadcast_mq = worker.worker_response_mq = None
    gone = threading.Event()
    worker.monitor_death_pipe(pipe, gone)
    for number in NUMBERS:
        os.kill(os.getpid(), number)
    pipe.send("serving")
    gone.wait()


@pytest.mark.slow  # importing vLLM takes ten seconds
@pytest.mark.parametrize(("asked", "status"), [("1", 0), ("", 3)])
def test_where_it_is_asked_for_the_plugin_sees_to_vllms_workers(
    asked: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that are forked too, in which vLLM does not load it again."""
    pytest.importorskip("vllm", reason="the workers are vLLM's")
    from vllm.v1.executor.multiproc_executor import WorkerProc

    from omnicfg.engine.plugin import register

    monkeypatch.setattr(WorkerProc, "monitor_death_pipe", WorkerProc.monitor_death_pipe)  # put back at the end
    monkeypatch.setenv(stop_signals.VARIABLE, asked)
    register()
    register()
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    worker = context.Process(target=serve, args=(ours, theirs))
    worker.start()
    theirs.close()
    with nullcontext() if asked else pytest.raises(EOFError):
        assert ours.recv() == "serving"
    ours.close()
    worker.join()
    assert worker.exitcode == status
