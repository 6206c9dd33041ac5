"""The code predictor alone, greedy and sampled, and its sampled codes against those of the plain form."""

from __future__ import annotations

from typing import Final

from benchmarks.engine.support import Results
from benchmarks.gpu.parts import Context, Part, Table

_MEASURED: Final = "predictor"
_DIFFER: Final = "codes that differ"


def _run(context: Context) -> None:
    folder = context.folder(_MEASURED)
    if not Results(folder).done(_MEASURED):
        context.run(["-m", "benchmarks.engine.talker", str(folder), _MEASURED], folder / "predictor.log", devices="0")


def _table(context: Context) -> Table:
    results = Results(context.folder(_MEASURED))
    if not results.done(_MEASURED):
        return ["nothing is measured yet"], False
    told = results.read(_MEASURED)
    lines = [f"{name:12} {value:.2f} ms a frame" for name, value in told.items() if name != _DIFFER]
    return [*lines, f"{told[_DIFFER]} sampled codes differ"], told[_DIFFER] == 0


PARTS: Final = (Part(_MEASURED, _run, _table),)
