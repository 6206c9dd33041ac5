"""One hostile file, one process: an answer within a second of CPU time and a bounded amount of memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from omnicfg.passes.read import MAX_BYTES
from tests.patience import at_best

HEAD = "pipeline: qwen3_tts\nasync_chunk: false\n"
CPU_S = 1.0
FINDING_S = 0.0005  # what each finding may add, where a file has thousands of them
MEMORY_MB = 256

Make = Callable[[Path], None]


def text(content: str) -> Make:
    def make(path: Path) -> None:
        path.write_text(content, encoding="utf-8")

    return make


def filled(line: str, size: int = MAX_BYTES) -> str:
    """As many numbered lines as fit into a file of ``size`` bytes."""
    count = (size - len(HEAD)) // (len(line.format(n=10**6)) + 1)
    return HEAD + "\n".join(line.format(n=number) for number in range(count)) + "\n"


def aliases(levels: int, width: int) -> str:
    lines = ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * width)}]" for n in range(1, levels)]
    return HEAD + "\n".join(lines) + "\n"


def cycle(path: Path) -> None:
    for number in range(30):
        path.with_name(f"b{number}.yaml").write_text(f"base_config: b{(number + 1) % 30}.yaml\n{HEAD}")
    path.write_text(f"base_config: b0.yaml\n{HEAD}")


def wide_chain(path: Path) -> None:
    """Thirty files, each with hundreds of keys that nothing knows."""
    keys = ", ".join(f"k{n}: {n}" for n in range(300))
    stage = f"stages: [{{stage_id: 0, engine_extras: {{{keys}}}}}]\n"
    for number in range(30):
        below = f"base_config: b{number + 1}.yaml\n" if number < 29 else ""
        path.with_name(f"b{number}.yaml").write_text(below + HEAD + stage)
    path.write_text(f"base_config: b0.yaml\n{HEAD}")


HOSTILE: dict[str, Make] = {
    "a billion laughs": text(aliases(10, 10)),
    "aliases to the limit": text(aliases(60, 2)),
    "ten megabytes": text(HEAD + "# " + "x" * 10_000_000 + "\n"),
    "ten megabytes of keys": text(filled("key_{n}: 1", 10_000_000)),
    "as many comments as fit": text(filled("# comment {n}")),
    "as many keys as fit": text(filled("key_{n}: 1")),
    "as many suppressions as fit": text(filled("# omnicfg: ignore[OC{n}] because x")),
    "as long a scalar as fits": text(HEAD + "stages: [{stage_id: 0, dtype: " + "x" * (MAX_BYTES - 100) + "}]\n"),
    "a quoted scalar full of escapes": text(HEAD + 'dtype: "' + "\\u00e9" * ((MAX_BYTES - 100) // 6) + '"\n'),
    "a number as long as fits": text(HEAD + "active_stream_window: " + "9" * (MAX_BYTES - 100) + "\n"),
    "a sexagesimal as long as fits": text(HEAD + "active_stream_window: 1" + ":59" * ((MAX_BYTES - 100) // 3) + "\n"),
    "brackets": text(HEAD + "edges: " + "[" * 500_000),
    "braces": text(HEAD + "edges: " + "{a: " * 200_000),
    "indentation": text(HEAD + "".join(" " * n + f"k{n}:\n" for n in range(1200))),
    "interpolations": text(HEAD + "custom_voice_dir: " + "${pipeline}" * 20_000 + "\n"),
    "nested interpolations": text(HEAD + "custom_voice_dir: " + "${" * 20_000 + "\n"),
    "stages": text(HEAD + "stages:\n" + "".join(f"  - stage_id: {n}\n" for n in range(5000))),
    "connectors": text(
        HEAD + "connectors:\n" + "".join(f"  c{n}: {{name: X, extra: {{a: 1}}}}\n" for n in range(1500))
    ),
    "edges": text(HEAD + "edges:\n" + "".join(f"  - {{from: {n}, to: {n + 1}, window: 1}}\n" for n in range(1500))),
    "unknown keys of a stage": text(
        HEAD + "stages:\n  - stage_id: 0\n" + "".join(f"    k{n}: {n}\n" for n in range(4000))
    ),
    "bases in a ring": cycle,
    "a long chain of wide bases": wide_chain,
}


# What the process has held at most since it began, in KiB: that of `wait4` counts what its parent held as well.
COMMAND = """\
import atexit, re, sys
from pathlib import Path
from omnicfg.cli import main
peak = Path(sys.argv.pop())
status = Path("/proc/self/status")
atexit.register(lambda: peak.write_text(re.search(r"VmHWM:\\s+(\\d+)", status.read_text())[1]))
main()
"""


class Answer(NamedTuple):
    """How many findings there are, and what they took."""

    findings: int
    cpu_s: float
    memory_kib: int


def answer(profile: Path) -> Answer:
    folder = profile.parent
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
        command = [sys.executable, "-c", COMMAND, "validate", str(profile), "--format", "json", str(folder / "peak")]
        process = subprocess.Popen(command, stdout=out, stderr=err, env=environment)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode in (0, 1), (folder / "err").read_text()[-2000:]
    report = json.loads((folder / "out").read_text())
    assert report["summary"]["profiles"] == 1
    return Answer(len(report["diagnostics"]), used.ru_utime + used.ru_stime, int((folder / "peak").read_text()))


@pytest.mark.parametrize("name", HOSTILE)
def test_it_is_answered_in_bounds(tmp_path: Path, name: str) -> None:
    profile = tmp_path / "profile.yaml"
    HOSTILE[name](profile)
    answers: list[Answer] = []

    def cpu_s() -> float:
        answers.append(answer(profile))
        return answers[-1].cpu_s - FINDING_S * answers[-1].findings

    assert at_best(cpu_s, CPU_S) <= CPU_S
    assert answers[-1].memory_kib < MEMORY_MB << 10
