"""Where a server's engine spends its time, by sampling its Python stacks from outside (py-spy).

A ratio of two servers scatters by some percent from turn to turn; the share of samples that lie in what rows add does
not, so it can tell a cost of one percent.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

_RATE: Final = 500
"""Samples a second: without stopping the process, so some are thrown away."""
_OURS: Final = ("omnicfg/engine/", "omnicfg/serve/", "connector")
_AROUND: Final = "omnicfg/engine/thinkers.py"
"""Of ours too, but what it calls is the model's own work."""
_SHOWN: Final = 12
_BEGUN: Final = "Sampling process"
"""What py-spy says when it begins."""


def available() -> bool:
    """Whether py-spy is there."""
    return shutil.which("py-spy") is not None


@contextmanager
def sampled(pids: Sequence[int], folder: Path, name: str) -> Iterator[list[Path]]:
    """Sample these processes while the body runs; afterwards the files have a line a stack: frames, and their count.

    The body begins when all are being sampled: py-spy reads a process's libraries first, which can take longer than a
    load. Raises :class:`RuntimeError` where py-spy may not look into a process.
    """
    files = [folder / f"{name}-{pid}.txt" for pid in pids]
    command = ["py-spy", "record", "--rate", str(_RATE), "--nonblocking", "--format", "raw", "--duration", "600"]
    with ExitStack() as held:
        running = [
            held.enter_context(
                subprocess.Popen(
                    [*command, "--pid", str(pid), "--output", str(file)],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
            for pid, file in zip(pids, files, strict=True)
        ]
        try:
            for one in running:
                _wait(one)
            yield files
        finally:
            for one in running:
                one.send_signal(signal.SIGINT)  # it writes what it has
            said = [one.communicate()[1] for one in running]
    missing = [text for file, text in zip(files, said, strict=True) if not file.exists()]
    if missing:
        raise RuntimeError(f"py-spy: {missing[0].strip()}")


def told(files: Sequence[Path], requests: int) -> dict[str, Any]:
    """Samples in all and in what rows add, milliseconds a request of both, and the functions of ours, all inclusive."""
    total, ours, functions = 0, 0, Counter[str]()
    for file in files:
        for line in file.read_text().splitlines():
            stack, _, count = line.rpartition(" ")
            own = _own(stack.split(";"))
            total += int(count)
            ours += int(count) if own else 0
            functions.update(dict.fromkeys(own, int(count)))
    each = 1000 / _RATE / requests
    return {
        "samples": total,
        "of them in what rows add": ours,
        "ms_per_request": round(total * each, 3),
        "ms_per_request in what rows add": round(ours * each, 4),
        "functions": dict(functions.most_common(_SHOWN)),
    }


def _wait(sampler: subprocess.Popen[str]) -> None:
    """Until it samples, or has ended without."""
    assert sampler.stdout is not None
    for line in sampler.stdout:
        if _BEGUN in line:
            return


def _own(frames: Sequence[str]) -> set[str]:
    """The functions of a stack that only a server with rows calls, without their lines."""
    found = {frame.rpartition(":")[0] + ")" for frame in frames if any(word in frame for word in _OURS)}
    last = frames[-1]
    return {one for one in found if _AROUND not in one or _AROUND in last}
