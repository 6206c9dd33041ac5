"""``omnicfg bench prefix-cache`` as a part runs it: on some devices, resumed, with the GPUs' memory watched."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from threading import Event, Thread
from typing import Final, Self

from benchmarks.gpu.parts import GRACE_S, Context, Table
from omnicfg.bench import tables
from omnicfg.bench.report import report_of
from omnicfg.bench.store import Store
from omnicfg.bench.written import write
from omnicfg.doctor.nvidia import ask_devices
from omnicfg.errors import UsageError
from omnicfg.files import write_whole
from omnicfg.report.terminal import Style

_SAMPLED_S: Final = 5.0
_MIB: Final = 2**20
_LINES: Final = 6
_SHOWN: Final = 200


def bench(
    context: Context, folder: Path, name: str, words: Sequence[str], *, devices: str, arms: Sequence[str], rounds: int
) -> None:
    """Measure these arms, and keep how much of every GPU was in use at most meanwhile."""
    seconds = context.budget.left - GRACE_S
    if seconds < GRACE_S:
        return
    command = ["-m", "omnicfg.cli", "bench", "prefix-cache", *words, "--out", str(folder / "bench")]
    command += [word for arm in arms for word in ("--arm", arm)]
    command += ["--rounds", str(rounds), "--seconds", str(int(seconds))]
    with Memory() as memory:
        context.run(command, folder / f"{name}.log", devices=devices)
    kept = folder / f"memory-{name}.json"
    known: list[int] = json.loads(kept.read_text()) if kept.is_file() else []
    if most := memory.beside(known):
        write_whole(kept, json.dumps(most))


def table(folder: Path, expected: int) -> Table:
    """The bench's own table, each GPU's memory by call, and whether as much as ``expected`` is measured, all right."""
    try:
        store = Store.of(folder / "bench")
    except UsageError:
        return ["nothing is measured yet", *_ends(folder)], False
    report = report_of(store.setup, store.measurements())
    write(store.folder, report)
    measured = report["measurements"]
    lines = tables.text(report, Style(False), None).splitlines()
    for kept in sorted(folder.glob("memory-*.json")):
        told = [f"{mib / 1024:.1f}" for mib in json.loads(kept.read_text())]
        lines.append(f"GPU memory in use at most, {kept.stem.removeprefix('memory-')}: {', '.join(told)} GiB")
    lines.append(f"{len(measured)} of {expected} measurements")
    if not measured:
        lines += _ends(folder)
    return lines, len(measured) >= expected and not any(one["errors"] for one in measured)


def _ends(folder: Path) -> list[str]:
    """What the last calls said at their ends."""
    return [
        f"{log.name} | {line[:_SHOWN]}"
        for log in sorted(folder.glob("*.log"))
        for line in log.read_text(errors="replace").splitlines()[-_LINES:]
    ]


class Memory:
    """A context manager that watches the GPUs: MiB in use at most, by device."""

    def __init__(self) -> None:
        self._most: list[int] = []
        self._done = Event()
        self._thread = Thread(target=self._watch, daemon=True)

    def beside(self, known: Sequence[int]) -> list[int]:
        """The larger of what was seen and what is known, device by device."""
        if len(known) != len(self._most):
            return self._most or list(known)
        return [max(one, other) for one, other in zip(self._most, known, strict=True)]

    def _watch(self) -> None:
        while not self._done.is_set():
            began = time.monotonic()
            used = [(one.total - one.free) // _MIB for one in ask_devices() if one.total and one.free is not None]
            self._most = [max(one, other) for one, other in zip(used, self._most or used, strict=False)]
            self._done.wait(max(0.0, _SAMPLED_S - time.monotonic() + began))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
