"""What rows and the prefix cache cost where the CPU is what takes the time: two servers on one GPU, in turns."""

from __future__ import annotations

from typing import Final

from benchmarks.engine import cost
from benchmarks.engine.support import Budget, Results
from benchmarks.gpu.parts import GRACE_S, Context, Part, Table

_PAIR: Final = "off"
_LOADS: Final = ("P1024_h0_c1", "P4096_h0_c1", "DEC100_c32")
_REPETITIONS: Final = 4
_RUNNER: Final = "v1"
"""The one that profiles of Qwen3-Omni ask for."""


def _run(context: Context) -> None:
    folder = context.folder("cost")
    command = ["-m", "benchmarks.engine.cost", str(folder), _PAIR, "--runner", _RUNNER]
    command += ["--repetitions", str(_REPETITIONS), "--seconds", str(int(context.budget.left - 2 * GRACE_S))]
    command += [word for load in _LOADS for word in ("--load", load)]
    context.run([*command, *(["--tiny"] if context.cpu else [])], folder / "cost.log")


def _table(context: Context) -> Table:
    results = Results(context.folder("cost"))
    bench = cost.Bench(_PAIR, results, Budget(0), context.cpu, list(_LOADS), None, _RUNNER)
    missing = [name for name in bench.names(_REPETITIONS) if not results.done(name)]
    return [*bench.table().splitlines(), *(f"{name}: missing" for name in missing)], not missing


PARTS: Final = (Part("cost", _run, _table),)
