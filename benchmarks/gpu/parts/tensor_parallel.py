"""A Thinker on two GPUs: rows against transformers in float32 and bfloat16, and what fits beside rows, whole and in
shards.
"""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from typing import Final

from benchmarks.engine import capacity, rows
from benchmarks.engine.support import Results
from benchmarks.gpu.parts import GRACE_S, Context, Part, Table

_ROWS: Final = (
    "float32-off",
    "float32-v2-two-gpus",
    "float32-v2-two-gpus-pressure",
    "float32-v2-two-gpus-replicated",
    "bfloat16-off",
    "bfloat16-v2-two-gpus",
    "bfloat16-v2-two-gpus-pressure",
)
_EACH_S: Final = 240
_ON_CPU: Final = 2
"""So many of the configurations are tried on the CPU, where each takes a minute and more."""


def _rows(context: Context) -> None:
    folder = context.folder("tp-rows")
    command = ["-m", "benchmarks.engine.rows", str(folder), "--gpus", "2", "--each", str(_EACH_S)]
    command += [word for name in _names(context) for word in ("--only", name)]
    command += [
        "--seconds",
        str(int(context.budget.left - 2 * GRACE_S)),
        *(["--cpu"] if context.cpu else ["--jobs", "4"]),
    ]
    context.run(command, folder / "rows.log")


def _names(context: Context) -> tuple[str, ...]:
    return _ROWS[:_ON_CPU] if context.cpu else _ROWS


def _rows_table(context: Context) -> Table:
    results = Results(context.folder("tp-rows"))
    done = [one for one in rows.configurations() if one.name in _names(context) and results.done(one.name)]
    told = io.StringIO()
    with redirect_stdout(told):
        wrong = rows.table(done, results)
    missing = [name for name in _names(context) if not results.done(name)]
    return [*told.getvalue().splitlines(), *(f"{name}: missing" for name in missing)], not wrong and not missing


def _capacity(context: Context) -> None:
    folder = context.folder("tp-capacity")
    command = ["-m", "benchmarks.engine.capacity", str(folder), "--gpus", "2"]
    context.run([*command, *(["--tiny"] if context.cpu else [])], folder / "capacity.log")


def _capacity_table(context: Context) -> Table:
    results = Results(context.folder("tp-capacity"))
    lines, right = capacity.table(results, capacity.ARMS_OF_SEVERAL, 2)
    return lines, right


PARTS: Final = (
    Part("tp-rows", _rows, _rows_table, gpus=2),
    Part("tp-capacity", _capacity, _capacity_table, gpus=2),
)
