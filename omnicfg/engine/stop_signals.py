"""Stop signals, where every process gets one: only those act on them that know what has to be finished.

systemd sends them to all processes of a service. vLLM's workers then end at once, and take down what their engine would
have finished. They need no signal: each watches a pipe of its engine's and ends with that (vLLM 0.32.0,
``vllm/v1/executor/multiproc_executor.py``), or is killed.
"""

from __future__ import annotations

import functools
import signal
from collections.abc import Callable
from typing import Any, Final

VARIABLE: Final = "OMNICFG_STOP_SIGNALS"
"""Where it is in the environment, the plugin has vLLM's workers ignore them."""


def ignore() -> None:
    """Ignore them in this process. To be called in its main thread."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def leave_to_engine() -> None:
    """Have every worker that watches its engine ignore them: one that this process becomes, and those that are forked
    from it. Idempotent.
    """
    from vllm.v1.executor.multiproc_executor import WorkerProc

    if not hasattr(WorkerProc.monitor_death_pipe, "__wrapped__"):
        WorkerProc.monitor_death_pipe = _then_ignoring(WorkerProc.monitor_death_pipe)


def _then_ignoring(watch: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(watch)
    def watching(worker: Any, pipe: Any, *others: Any) -> None:
        watch(worker, pipe, *others)
        if pipe is not None:
            ignore()

    return watching
