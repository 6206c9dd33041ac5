"""The tiny default's text, codes and sound against transformers', in float32, on one GPU and across two."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from benchmarks.engine.support import Results
from benchmarks.gpu.parts import GRACE_S, LATE, Context, Part, Table, settings
from benchmarks.gpu.served import served
from omnicfg.models import materialize

_PLACES: Final[dict[str, tuple[str, dict[str, str]]]] = {
    "one GPU": ("0", {}),
    "two GPUs": ("0,1", {f"stages.{stage}.devices": '"1"' for stage in (1, 2)}),
}
"""The devices, and where the later stages are put among them."""
_SETTINGS: Final = {"stages.1.kv_cache_memory_bytes": 2**28}
# Triton multiplies in TF32 unless told otherwise, and cuDNN, with which pictures and sounds are read, convolves in it.
_NO_TF32: Final = {"TRITON_F32_DEFAULT": "ieee", "NVIDIA_TF32_OVERRIDE": "0"}
_REFERENCE: Final = """
import sys
from pathlib import Path
from omnicfg.engine.verify_speech import kept_reference
kept_reference(Path(sys.argv[1]), Path(sys.argv[2]))
"""


def _run(context: Context) -> None:
    folder = context.folder("parity")
    results = Results(folder)
    missing = [place for place in _PLACES if _fits(place, context) and not results.done(_file(place))]
    if not missing:
        return
    scratch = folder / "scratch"
    scratch.mkdir(exist_ok=True)
    model, reference = materialize("builtin:tiny-omni", context.state / "models"), scratch / "reference.json"
    with ThreadPoolExecutor(1 if context.cpu else len(missing) + 1) as pool:
        # What transformers says takes as long as a server's start.
        told = pool.submit(
            context.run, ["-c", _REFERENCE, str(model), str(reference)], folder / "reference.log", devices=""
        )
        compared = [pool.submit(_compare, context, place, reference, lambda: told.result() == 0) for place in missing]
        for one in compared:
            one.result()


def _fits(place: str, context: Context) -> bool:
    """Whether the GPUs that a place names are there. A CPU stands in for any number of them."""
    return context.cpu or len(_PLACES[place][0].split(",")) <= len(context.devices)


def _compare(context: Context, place: str, reference: Path, ready: Callable[[], bool]) -> None:
    devices, places = _PLACES[place]
    words = ["--reference", str(reference)]
    compare(context, "parity", _file(place), words, devices, {} if context.cpu else places, ready)


def compare(
    context: Context,
    part: str,
    name: str,
    words: Sequence[str],
    devices: str,
    places: Mapping[str, str],
    ready: Callable[[], bool] = lambda: True,
) -> None:
    """Serve the tiny default and compare it by ``verify_speech WORDS``; what comes of it is kept as ``name``.

    ``places`` are settings beside the usual ones; ``ready`` waits for what the comparison needs, and says whether it is
    there.
    """
    folder, model = context.folder(part), materialize("builtin:tiny-omni", context.state / "models")
    serve = ["tiny-omni", "--model", str(model), *settings({**_SETTINGS, **places})]
    with served(context, serve, folder / f"serve-{name}.log", devices, **_NO_TF32) as server:
        seconds = server.wait(context.budget.left - GRACE_S)
        if seconds is None or not ready():
            return
        began, log = time.monotonic(), folder / f"verify-{name}.log"
        log.unlink(missing_ok=True)
        command = ["-m", "omnicfg.engine.verify_speech", str(model), server.url, "--name", server.model()]
        code = context.run([*command, *words], log, devices=devices)
        if code != LATE:
            told = log.read_text(errors="replace").splitlines()
            result = {"exit_code": code, "start_s": round(seconds, 1), "seconds": round(time.monotonic() - began, 1)}
            Results(folder).write(name, {**result, "told": told[-8:]})


def _table(context: Context) -> Table:
    results = Results(context.folder("parity"))
    lines: list[str] = []
    right = True
    for place in _PLACES:
        if not results.done(_file(place)):
            lines.append(f"{place}: missing" if _fits(place, context) else f"{place}: needs more GPUs than there are")
            right = False
            continue
        one = results.read(_file(place))
        told: Sequence[str] = one["told"] or ["nothing was said"]
        lines.append(f"{place}: ready after {one['start_s']} s; {told[-1]}")
        right = right and one["exit_code"] == 0
    return lines, right


def _file(place: str) -> str:
    return place.replace(" ", "-").lower()


PARTS: Final = (Part("parity", _run, _table),)
