"""What rows and the prefix cache cost where the CPU is what takes the time: two servers on one GPU, in turns."""

from __future__ import annotations

from typing import Final

from benchmarks.engine.cost import LOADS, Bench
from benchmarks.engine.support import Budget, Results
from benchmarks.gpu.parts import GRACE_S, Context, Part, Table

_LOADS: Final = ("P1024_h0_c1", "DEC100_c32")
_REPETITIONS: Final = 3
_RUNNER: Final = "v1"
"""The one that profiles of Qwen3-Omni ask for."""


def _run(context: Context) -> None:
    folder = context.folder("cost")
    for pair in LOADS:
        if not _missing(_bench(context, pair)):
            continue
        command = ["-m", "benchmarks.engine.cost", str(folder), pair, "--runner", _RUNNER]
        command += ["--repetitions", str(_REPETITIONS), "--seconds", str(int(context.budget.left - 2 * GRACE_S))]
        command += [word for load in _LOADS for word in ("--load", load)]
        context.run([*command, *(["--tiny"] if context.cpu else [])], folder / f"cost-{pair}.log")


def _table(context: Context) -> Table:
    benches = [_bench(context, pair) for pair in LOADS]
    lines = [line for bench in benches for line in bench.table().splitlines()]
    missing = [name for bench in benches for name in _missing(bench)]
    return [*lines, *(f"{name}: missing" for name in missing)], not missing


def _bench(context: Context, pair: str) -> Bench:
    return Bench(pair, Results(context.folder("cost")), Budget(0), context.cpu, list(_LOADS), None, _RUNNER)


def _missing(bench: Bench) -> list[str]:
    return [name for name in bench.names(_REPETITIONS) if not bench.results.done(name)]


PARTS: Final = (Part("cost", _run, _table),)
