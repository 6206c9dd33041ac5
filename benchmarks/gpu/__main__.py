"""What needs one or two NVIDIA GPUs, part by part.

    python -m benchmarks.gpu STATE PART... [--seconds 540] [--rounds 1] [--loads NAME,NAME]
                                   [--archive FILE] [--cpu]

Parts run one after the other; ``A+B`` run at once, and ``B@45`` begins 45 seconds later. Everything ends within
``--seconds``, keeps what it measured, and the same command goes on from there. A table of every part comes last; the
exit code is 1 where something is missing or wrong. ``--archive`` is for a machine that may be taken away: a file that
is unpacked first, and written anew all the time. ``--cpu`` tries the parts out, with small models and loads.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Self

from benchmarks.engine.support import Budget
from benchmarks.gpu.archive import kept
from benchmarks.gpu.parts import GRACE_S, Context, Part, parts
from omnicfg.bench.loads import quick, read_loads, tables
from omnicfg.interrupt import interruptible
from omnicfg.serve.machine import this_machine

SAVED_S = 2.0
"""How long the archive may take at the end."""


@dataclass(frozen=True)
class Turn:
    """A part, and how many seconds after the others of its group it begins."""

    part: Part
    delay: float

    @classmethod
    def of(cls, word: str) -> Self:
        """``NAME`` or ``NAME@SECONDS``. Raises :class:`ValueError`."""
        name, _, delay = word.partition("@")
        if name not in (known := parts()):
            raise ValueError(f"no part `{name}`; parts: {', '.join(known)}")
        return cls(known[name], float(delay or 0))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, then print the tables; 1 where something is missing or wrong."""
    options, groups = _asked(arguments)
    budget, devices = Budget(options.seconds - SAVED_S), this_machine().visible
    context = Context(options.state, budget, options.rounds, options.cpu, Event(), devices, options.loads)
    options.state.mkdir(parents=True, exist_ok=True)
    with kept(options.state, options.archive), interruptible():
        try:
            for group in groups:
                _run(group, context)
        except KeyboardInterrupt:
            print("stopped: the same command again goes on", file=sys.stderr)
        finally:
            context.stop.set()
    return _told([turn.part for group in groups for turn in group], context)


def _asked(arguments: Sequence[str] | None) -> tuple[argparse.Namespace, list[list[Turn]]]:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("state", type=Path, metavar="STATE", help="a folder for all that is measured")
    parser.add_argument("parts", nargs="+", metavar="PART", help=", ".join(parts()))
    parser.add_argument("--seconds", type=float, default=540.0, help="time for this call")
    parser.add_argument("--rounds", type=int, default=1, help="how often every arm is measured in all")
    parser.add_argument("--loads", type=_names, default=(), help="of the published text loads only these: NAME,NAME")
    parser.add_argument("--archive", type=Path, metavar="FILE", help="where the state is kept as one file (.tgz)")
    parser.add_argument("--cpu", action="store_true", help="try the parts out without a GPU")
    options = parser.parse_args(arguments)
    try:
        return options, [[Turn.of(word) for word in group.split("+")] for group in options.parts]
    except ValueError as error:
        parser.error(str(error))


def _names(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    known = {load.name for table in (*map(read_loads, tables().values()), quick()) for load in table}
    if unknown := [name for name in names if name not in known]:
        raise argparse.ArgumentTypeError(f"no published row is called {', '.join(unknown)}")
    return names


def _run(group: Sequence[Turn], context: Context) -> None:
    """A group's parts at once. A signal that stops this process stops them."""

    def begin(turn: Turn) -> None:
        if context.stop.wait(turn.delay) or context.budget.left < GRACE_S:
            return
        if not context.cpu and len(context.devices) < turn.part.gpus:
            print(f"{turn.part.name}: needs {turn.part.gpus} GPUs; here: {len(context.devices)}", flush=True)
            return
        began = time.monotonic()
        try:
            turn.part.run(context)
        except Exception:  # noqa: BLE001 - the others go on, and the table says what is missing
            traceback.print_exc()
        print(f"{turn.part.name}: {time.monotonic() - began:.0f} s", flush=True)

    with ThreadPoolExecutor(len(group)) as pool:
        running = [pool.submit(begin, turn) for turn in group]
        try:
            for one in running:
                one.result()
        except BaseException:
            context.stop.set()
            raise


def _told(chosen: Sequence[Part], context: Context) -> int:
    wrong = 0
    for part in dict.fromkeys(chosen):
        lines, right = part.table(context)
        wrong += not right
        print(f"\n{part.name}: {'complete' if right else 'INCOMPLETE OR WRONG'}", *lines, sep="\n")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
