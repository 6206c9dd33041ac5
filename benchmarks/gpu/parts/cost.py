"""What rows and the prefix cache cost: servers that share GPUs, in turns.

``cost``: few requests at a time, beside plain vLLM with its cache off, and beside its own cache with the
published loads that hit; two GPUs have a group of servers each. ``tp-cost``: on two ranks, rows in shards and whole.
Where py-spy is installed, it looks into the engines as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final

from benchmarks.engine import profiled
from benchmarks.engine.cost import GROUPS, Bench, Plan
from benchmarks.engine.support import Budget, Results
from benchmarks.gpu.parts import GRACE_S, Context, Part, Table

_REPETITIONS: Final = 3
_ON_CPU: Final = "v1"
"""The runner where there is no GPU: the other one needs Triton."""
_FEW: Final = ("P1024_h0_c1", "DEC100_c32")


@dataclass(frozen=True)
class Asked:
    """A group of :mod:`benchmarks.engine.cost`, its loads, and vLLM's model runner."""

    group: str
    loads: Sequence[str]
    runner: str

    def bench(self, folder: Results, cpu: bool) -> Bench:
        """What is measured there; nothing is started."""
        plan = Plan(self.group, self.loads, runner=_ON_CPU if cpu else self.runner, tiny=cpu)
        return Bench(plan, folder, Budget(0))

    def missing(self, folder: Results, cpu: bool) -> list[str]:
        """The measurements that are not there yet."""
        return [name for name in self.bench(folder, cpu).names(_REPETITIONS) if not folder.done(name)]


_ASKED: Final = {
    # The runner is the one that profiles of Qwen3-Omni ask for.
    "cost": (
        Asked("off", _FEW, "v1"),
        Asked("plain", ("P4096_h94_c64", *_FEW, *GROUPS["plain"].text_only), "v1"),
    ),
    "tp-cost": (Asked("ranks", [load.name for load in GROUPS["ranks"].loads], "v2"),),
}


def _run(name: str, context: Context) -> None:
    folder = context.folder(name)

    def measure(asked: Asked, devices: str) -> None:
        if not asked.missing(Results(folder), context.cpu):
            return
        command = ["-m", "benchmarks.engine.cost", str(folder), asked.group]
        command += ["--runner", _ON_CPU if context.cpu else asked.runner]
        command += ["--repetitions", str(_REPETITIONS), "--seconds", str(int(context.budget.left - 2 * GRACE_S))]
        command += [word for load in asked.loads for word in ("--load", load)]
        command += ["--tiny"] if context.cpu else []
        command += ["--profile"] if profiled.available() else []
        command.append("--trace")
        context.run(command, folder / f"cost-{asked.group}.log", devices=devices)

    groups = _ASKED[name]
    at_once = min(len(groups), max(1, len(context.devices))) if not context.cpu else 1
    with ThreadPoolExecutor(at_once) as pool:
        for one in [
            pool.submit(measure, asked, _devices(asked, place % at_once)) for place, asked in enumerate(groups)
        ]:
            one.result()


def _devices(asked: Asked, first: int) -> str:
    return ",".join(str(first + place) for place in range(GROUPS[asked.group].gpus))


def _table(name: str, context: Context) -> Table:
    results = Results(context.folder(name))
    lines = [line for asked in _ASKED[name] for line in asked.bench(results, context.cpu).table().splitlines()]
    missing = [one for asked in _ASKED[name] for one in asked.missing(results, context.cpu)]
    return [*lines, *(f"{one}: missing" for one in missing)], not missing


PARTS: Final = tuple(
    Part(name, partial(_run, name), partial(_table, name), gpus=max(GROUPS[asked.group].gpus for asked in groups))
    for name, groups in _ASKED.items()
)
