"""Pictures, sounds and videos in the prompt and speech in the answer: the Talker on vLLM alone, then a whole server."""

from __future__ import annotations

from typing import Final

from benchmarks.engine.support import Results
from benchmarks.engine.talker import RUNS
from benchmarks.gpu.parts import LATE, Context, Part, Table
from benchmarks.gpu.parts.parity import compare

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
    compare(context, "media", _SERVER, ["--media", "--reference", str(folder / "reference.json")], "0", {})


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
