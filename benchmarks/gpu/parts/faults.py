"""What goes wrong with stages on two GPUs is told with the stage and the device, and leaves nothing running.

The memory of a later stage's GPU is taken before the start; a stage asks for a device that is not there; the process of
each stage is killed while the server answers. And ``omnicfg doctor --format json`` says what it sees of the GPUs.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.engine.support import Results
from benchmarks.gpu.parts import GRACE_S, Context, Part, Table, settings
from benchmarks.gpu.served import SPOKEN, Served, served
from omnicfg.models import materialize
from omnicfg.serve.child import child

_TWO: Final = {f"stages.{stage}.devices": '"1"' for stage in (1, 2)}
_FREE: Final = 2 * 2**30
_HOLD: Final = """
import sys, torch
free, _ = torch.cuda.mem_get_info(0)
held = torch.empty(free - int(sys.argv[1]), dtype=torch.uint8, device="cuda")
print("held", flush=True)
sys.stdin.read()
"""
_OWN: Final = re.compile(r"(?:omnicfg \w+: (?!starting,)|error: |  = help: ).*")
_START_S: Final = 150.0
_SETTLED_S: Final = 30.0
_LATER: Final = ("talker", "code2wav")


@dataclass(frozen=True)
class Check:
    """One thing that goes wrong, what came of it, and whether that is as it should be."""

    name: str
    run: Callable[[Context], Mapping[str, Any]]
    right: Callable[[Mapping[str, Any]], bool]
    on_cpu: bool = True


def _doctor(context: Context) -> Mapping[str, Any]:
    log = context.folder("faults") / "doctor.json"
    log.unlink(missing_ok=True)
    code = context.run(["-m", "omnicfg.cli", "doctor", "--format", "json"], log)
    told: Any = None
    try:
        told = json.loads(log.read_text())
    except ValueError:
        return {"exit_code": code, "messages": log.read_text(errors="replace").splitlines()[-8:]}
    return {"exit_code": code, "doctor": told, "messages": []}


def _absent(context: Context) -> Mapping[str, Any]:
    return _refused(context, "absent", {"stages.1.devices": '"7"', "stages.2.devices": '"1"'})


def _full(context: Context) -> Mapping[str, Any]:
    with _held(context, "1"):
        return _refused(context, "full", _TWO)


def _refused(context: Context, name: str, values: Mapping[str, str]) -> Mapping[str, Any]:
    """How a start ends that cannot succeed."""
    words = ["tiny-omni", "--model", _model(context), *settings(values)]
    began = time.monotonic()
    with served(context, words, context.folder("faults") / f"{name}.log") as server:
        ready = server.wait(min(_START_S, context.budget.left - GRACE_S))
        ended = server.process.poll()
    return {
        "ready": ready is not None,
        "exit_code": ended,
        "seconds": round(time.monotonic() - began, 1),
        "messages": _messages(server.said()),
        "left": server.processes(),
    }


@contextmanager
def _held(context: Context, device: str) -> Iterator[None]:
    """All but 2 GiB of a GPU's memory, taken by a process of its own."""
    command = [sys.executable, "-c", _HOLD, str(_FREE)]
    with child(command, context.environment(device), grace_s=0, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        if holder.stdout.readline().strip() != b"held":
            raise RuntimeError(f"the memory of device {device} could not be taken")
        yield


def _killed(context: Context) -> Mapping[str, Any]:
    """Each later stage is killed, then the Thinker: what requests get, and what is left."""
    words = ["tiny-omni", "--model", _model(context), *settings({} if context.cpu else _TWO)]
    told: dict[str, Any] = {}
    with served(context, words, context.folder("faults") / "killed.log") as server:
        told["start_s"] = server.wait(min(_START_S, context.budget.left - GRACE_S))
        if told["start_s"] is None:
            return {**told, "messages": _messages(server.said())}
        name = server.model()
        for stage in _LATER:
            os.kill(_stage_processes(server)[stage], signal.SIGKILL)
            time.sleep(0.5)
            told[f"{stage}: speech"] = _ask(server, name, spoken=True)
            told[f"{stage}: text"] = _ask(server, name)
            told[f"{stage}: speech again"] = _again(server, name, context)
        os.kill(_stage_processes(server)["thinker"], signal.SIGKILL)
        limit = time.monotonic() + _SETTLED_S
        while server.process.poll() is None and time.monotonic() < limit:
            time.sleep(0.2)
        told["thinker: serve's exit code"] = server.process.poll()
        told["left"] = server.processes()
    on = ("", "", "") if context.cpu else (" on device 0", " on device 1", " on device 1")
    named = [f"stage 0{on[0]} ended", f"stage 1 (talker){on[1]} died", f"stage 2 (code2wav){on[2]} died"]
    said = _messages(server.said())
    return {**told, "not said": [one for one in named if one not in " ".join(said)], "messages": said}


def _again(server: Served, name: str, context: Context) -> str:
    """What a request for speech gets once the stage has come back."""
    limit = time.monotonic() + min(_START_S, context.budget.left - GRACE_S)
    while (answer := _ask(server, name, spoken=True))[:3] != "200" and time.monotonic() < limit:
        time.sleep(1)
    return answer


def _ask(server: Served, name: str, *, spoken: bool = False) -> str:
    body = {"model": name, "messages": [{"role": "user", "content": "Hello there"}], "max_tokens": 8, "temperature": 0}
    status, text = server.ask("POST", "/v1/chat/completions", {**body, **(SPOKEN if spoken else {})})
    return f"{status} {text[:300] if status != 200 else ''}".strip()


def _stage_processes(server: Served) -> dict[str, int]:
    """The process of each stage: a later one is told in its environment which it is, the Thinker by vLLM's title."""
    found: dict[str, int] = {}
    for pid in server.processes():
        try:
            title, held = (Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ"))
        except OSError:
            continue
        if stage := re.search(rb"(?:^|\0)OMNICFG_STAGE=(\w+)", held):
            found.setdefault(stage[1].decode(), pid)
        elif b"EngineCore" in title:
            found["thinker"] = pid
    return found


def _model(context: Context) -> str:
    return str(materialize("builtin:tiny-omni", context.state / "models"))


def _messages(said: str) -> list[str]:
    """What omnicfg itself has said, the last of it; a line may begin with what another process left unended."""
    return [line[:300] for line in _OWN.findall(said)][-12:]


def _names(told: Mapping[str, Any], stage: str, device: str) -> bool:
    said = " ".join(told["messages"])
    return bool(re.search(rf"stage {stage}\b", said) and re.search(rf"device {device}\b", said))


CHECKS: Final = (
    Check("doctor", _doctor, lambda told: "doctor" in told),
    Check(
        "absent device",
        _absent,
        lambda told: told["exit_code"] not in (0, None) and not told["left"] and _names(told, "1", "7"),
        on_cpu=False,
    ),
    Check(
        "full device",
        _full,
        lambda told: told["exit_code"] not in (0, None) and not told["left"] and _names(told, "1", "1"),
        on_cpu=False,
    ),
    Check(
        "killed stages",
        _killed,
        lambda told: (
            all(
                told.get(f"{stage}: text") == "200"
                and told.get(f"{stage}: speech again") == "200"
                and told.get(f"{stage}: speech", "200") != "200"
                for stage in _LATER
            )
            and told.get("thinker: serve's exit code") not in (0, None)
            and not told.get("left", True)
            and not told.get("not said", True)
        ),
    ),
)


def _chosen(context: Context) -> list[Check]:
    return [check for check in CHECKS if check.on_cpu or not context.cpu]


def _run(context: Context) -> None:
    results = Results(context.folder("faults"))
    for check in _chosen(context):
        if results.done(_file(check)) or context.budget.left < 2 * GRACE_S or context.stop.is_set():
            continue
        told = check.run(context)
        if check.right(told) or context.budget.left > GRACE_S:  # what was cut off says nothing
            results.write(_file(check), dict(told))


def _table(context: Context) -> Table:
    results = Results(context.folder("faults"))
    lines: list[str] = []
    right = True
    for check in _chosen(context):
        if not results.done(_file(check)):
            lines.append(f"{check.name}: missing")
            right = False
            continue
        told = results.read(_file(check))
        good = check.right(told)
        right = right and good
        lines.append(f"{check.name}: {'as it should be' if good else 'WRONG'}")
        lines += [f"  {name}: {value}" for name, value in told.items() if name not in ("messages", "doctor")]
        lines += [f"  | {line}" for line in told["messages"]]
    return lines, right


def _file(check: Check) -> str:
    return check.name.replace(" ", "-")


PARTS: Final = (Part("faults", _run, _table, gpus=2),)
