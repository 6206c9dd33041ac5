"""Pictures, sounds and videos in the prompt and speech in the answer: the Talker on vLLM alone, then a whole server."""

from __future__ import annotations

from typing import Final

from benchmarks.engine.support import Results
from benchmarks.engine.talker import RUNS
from benchmarks.gpu.parts import GRACE_S, LATE, Context, Part, Table, settings
from benchmarks.gpu.served import served
from omnicfg.models import materialize

_SETTINGS: Final = {"stages.1.kv_cache_memory_bytes": 2**28}
_SERVER: Final = "server"


def _talker(context: Context) -> None:
    folder = context.folder("talker")
    for run in RUNS["parity"]:
        if Results(folder).done(_file(run)):
            continue
        log = folder / f"run-{_file(run)}.log"
        log.unlink(missing_ok=True)
        command = ["-m", "benchmarks.engine.talker", str(folder), run, *(["--interpreted"] if context.cpu else [])]
        code = context.run(command, log, devices="" if context.cpu else "0")
        if code == LATE:
            return
        Results(folder).write(
            _file(run), {"exit_code": code, "told": log.read_text(errors="replace").splitlines()[-8:]}
        )


def _talker_table(context: Context) -> Table:
    return _told(context, "talker", [_file(run) for run in RUNS["parity"]])


def _media(context: Context) -> None:
    folder = context.folder("media")
    if Results(folder).done(_SERVER):
        return
    model = materialize("builtin:tiny-omni", context.state / "models")
    words = ["tiny-omni", "--model", str(model), *settings(_SETTINGS)]
    # Triton multiplies float32 as TF32 unless told otherwise.
    with served(context, words, folder / "serve.log", "0", TRITON_F32_DEFAULT="ieee") as server:
        if server.wait(context.budget.left - GRACE_S) is None:
            return
        log = folder / "verify.log"
        log.unlink(missing_ok=True)
        command = ["-m", "omnicfg.engine.verify_speech", str(model), server.url, "--name", server.model(), "--media"]
        code = context.run([*command, "--reference", str(folder / "reference.json")], log, devices="0")
        if code != LATE:
            told = log.read_text(errors="replace").splitlines()
            Results(folder).write(_SERVER, {"exit_code": code, "told": told[-8:]})


def _media_table(context: Context) -> Table:
    return _told(context, "media", [_SERVER])


def _told(context: Context, part: str, names: list[str]) -> Table:
    results = Results(context.folder(part))
    lines: list[str] = []
    right = True
    for name in names:
        one = results.read(name) if results.done(name) else {"exit_code": None, "told": [f"{name}: missing"]}
        lines += one["told"] or [f"{name}: nothing was said"]
        right = right and one["exit_code"] == 0
    return lines, right


def _file(run: str) -> str:
    return f"result-{run.replace(':', '-')}"


PARTS: Final = (Part("talker", _talker, _talker_table), Part("media", _media, _media_table))
