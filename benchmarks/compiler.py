"""How long the compiler takes: one cold `resolve`, and all of vllm-omni's deploy files on all platforms.

    python -m benchmarks.compiler [--deploy DIR] [--runs 15] [--vllm-omni-python PYTHON] [--out DIR]

Cold runs alternate with `python -c pass`, so that whatever else the machine does meets both alike. `--vllm-omni-python`
names an interpreter that can import vllm-omni 0.30.0; its own resolver is then measured beside ours, on the same files.
`--out` is a folder for `compiler.json` and `compiler.md`. The exit code is 1 where a limit is missed.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from omnicfg.catalog.upstream import VLLM_OMNI
from tests.upstream import deploy_files

ROOT: Final = Path(__file__).parent.parent
PROFILE: Final = "minicpmo_4_5_turn.yaml"
PLATFORM: Final = "npu"
RATIO_LIMIT: Final = 10.0
VALIDATE_LIMIT_S: Final = 2.5

# What vllm-omni itself does with the same files. sys.argv: the folder, then a file and a platform, or nothing for all.
_UPSTREAM: Final = """\
import json, sys
from pathlib import Path
from tests.parity.oracle import PLATFORMS, prepare, resolve
prepare()
folder, only = Path(sys.argv[1]), sys.argv[2:]
known = json.loads(sys.stdin.read())
cells = [(only[0], only[1])] if only else [(name, platform) for name in known for platform in PLATFORMS]
for name, platform in cells:
    resolve(folder / name, known[name], platform)
print(len(cells))
"""


class Run(NamedTuple):
    """What a process took: seconds on the clock, and of the CPU (user and system, children included)."""

    wall_s: float
    cpu_s: float
    output: str


def run(command: Sequence[str], *, stdin: str = "", environment: dict[str, str] | None = None) -> Run:
    """Run a command to its end. Raises :class:`RuntimeError` with its last words where it fails.

    Python may keep its byte code, as it does unless it is told otherwise: cold means a new process, not a new machine.
    """
    variables = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        command,
        input=stdin,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**variables, **(environment or {})},
        check=False,
    )
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{' '.join(command[:3])} ...: {done.stderr.strip()[-2000:]}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Run(wall, cpu, done.stdout)


# --------------------------------------------------------------------------------------------------------- ours
def omnicfg_command() -> list[str]:
    """The installed command; in a checkout that is not installed, its module."""
    script = Path(sys.executable).with_name("omnicfg")
    return [str(script)] if script.exists() else [sys.executable, "-m", "omnicfg.cli"]


def cold_resolve(folder: Path, runs: int) -> dict[str, Any]:
    """Medians of `omnicfg resolve` and of `python -c pass`, run in turns, and their ratio."""
    resolve = [*omnicfg_command(), "resolve", str(folder / PROFILE), "--platform", PLATFORM]
    bare = [sys.executable, "-c", "pass"]
    for command in (bare, resolve):
        run(command)  # byte code is written, files are in memory
    pairs = [(run(bare), run(resolve)) for _ in range(runs)]
    measured = {
        f"{name}_{unit}": statistics.median(getattr(pair[index], unit) for pair in pairs)
        for index, name in enumerate(("bare", "resolve"))
        for unit in ("wall_s", "cpu_s")
    }
    ratios = {f"ratio_{unit}": measured[f"resolve_{unit}_s"] / measured[f"bare_{unit}_s"] for unit in ("wall", "cpu")}
    return {"runs": runs, **measured, **ratios}


def validate_all(folder: Path, runs: int) -> dict[str, Any]:
    """CPU time of one process, its start included, that validates every file on every platform."""
    files = sorted(map(str, folder.glob("*.yaml")))
    command = [*omnicfg_command(), "validate", *files, "--platform", "all", "--format", "json"]
    done = [run(command) for _ in range(runs)]
    return {
        "runs": runs,
        "files": len(files),
        "findings": len(json.loads(done[0].output)["diagnostics"]),
        "cpu_s": statistics.median(one.cpu_s for one in done),
        "wall_s": statistics.median(one.wall_s for one in done),
    }


# ----------------------------------------------------------------------------------------------------- vllm-omni
def upstream_resolve(folder: Path, python: str, runs: int) -> dict[str, Any]:
    """The same two tasks for vllm-omni's own resolver: one file cold, and every file on every platform (no checks)."""
    known = _pipelines(folder)
    environment = {"PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])}
    command = [python, "-c", _UPSTREAM, str(folder)]
    cold = [run([*command, PROFILE, PLATFORM], stdin=known, environment=environment) for _ in range(runs)]
    every = run(command, stdin=known, environment=environment)
    return {
        "runs": runs,
        "resolve_wall_s": statistics.median(one.wall_s for one in cold),
        "resolve_cpu_s": statistics.median(one.cpu_s for one in cold),
        "all_cells": json.loads(every.output.strip().splitlines()[-1]),
        "all_cpu_s": every.cpu_s,
        "all_wall_s": every.wall_s,
    }


def _pipelines(folder: Path) -> str:
    """File → pipeline, from the answers that the parity tests hold."""
    expected = ROOT / "tests" / "parity" / "expected"
    names = sorted(path.name for path in folder.glob("*.yaml"))
    answers = {name: json.loads((expected / name).with_suffix(".json").read_text(encoding="utf-8")) for name in names}
    return json.dumps({name: answer["pipeline"] for name, answer in answers.items()})


# ------------------------------------------------------------------------------------------------------- report
def machine() -> str:
    """The machine in general words."""
    return f"{os.cpu_count()}-core {platform.machine().replace('_', '-')} VM, Python {platform.python_version()}"


def table(results: dict[str, Any], arguments: str) -> str:
    """The results as a page."""
    cold, every, upstream = results["cold"], results["all"], results.get("vllm_omni") or {}
    one, all_files = f"`resolve {PROFILE} --platform {PLATFORM}`, cold", f"{every['files']} files on 5 platforms"
    rows = [
        (f"{one}, clock", cold["resolve_wall_s"], upstream.get("resolve_wall_s"), cold["bare_wall_s"]),
        (f"{one}, CPU", cold["resolve_cpu_s"], upstream.get("resolve_cpu_s"), cold["bare_cpu_s"]),
        (f"{all_files}, one process, CPU", every["cpu_s"], upstream.get("all_cpu_s"), cold["bare_cpu_s"]),
    ]
    lines = [f"| {what} | {_s(ours, bare)} | {_s(theirs, bare)} |" for what, ours, theirs, bare in rows]
    ending = f"; vllm-omni's are medians of {upstream['runs']}" if upstream else ""
    return f"""\
# The compiler, measured

{results["date"]}, {results["machine"]}:

```sh not-run="measures"
python -m benchmarks.compiler {arguments}
```

In brackets: how many bare starts of Python that is (`python -c pass`, {_s(cold["bare_wall_s"])} on the clock and
{_s(cold["bare_cpu_s"])} of CPU). Cold starts are medians of {cold["runs"]}, in turns with the bare ones{ending}.

| | omnicfg | vllm-omni {VLLM_OMNI} |
|---|---|---|
{chr(10).join(lines)}

On all files omnicfg also runs every rule (the {every["findings"]} findings of `tests/rules/upstream_findings.txt`);
vllm-omni only resolves them. The limits of this project, which the benchmark checks: a cold `resolve` within
{RATIO_LIMIT:g} bare starts on the clock, all files in under {VALIDATE_LIMIT_S:g} s of CPU.
"""


def _s(seconds: float | None, bare: float | None = None) -> str:
    """Seconds for people; in brackets, how many bare starts they are."""
    if seconds is None:
        return "not measured"
    text = f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
    return text if bare is None else f"{text} ({seconds / bare:.{0 if seconds > 100 * bare else 1}f})"


def main() -> int:
    """Measure, print, write; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compiler", description="How long the compiler takes.")
    parser.add_argument("--deploy", type=Path, help="folder of vllm-omni's deploy files; otherwise its wheel's, by pip")
    parser.add_argument("--runs", type=int, default=15, help="cold starts to take the median of")
    parser.add_argument("--vllm-omni-python", help="interpreter that can import vllm-omni; PYTHONPATH is passed on")
    parser.add_argument("--out", type=Path, help="folder for compiler.json and compiler.md")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = (given.deploy or deploy_files(Path(scratch))).resolve()
        results: dict[str, Any] = {
            "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
            "machine": machine(),
            "cold": cold_resolve(folder, given.runs),
            "all": validate_all(folder, min(given.runs, 5)),
        }
        if given.vllm_omni_python:
            results["vllm_omni"] = upstream_resolve(folder, given.vllm_omni_python, min(given.runs, 3))
    shown = f"--runs {given.runs}" + (" --vllm-omni-python PYTHON" if given.vllm_omni_python else "")
    page = table(results, shown)
    print(page)
    if given.out:
        given.out.mkdir(parents=True, exist_ok=True)
        (given.out / "compiler.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        (given.out / "compiler.md").write_text(page, encoding="utf-8")
    missed = results["cold"]["ratio_wall"] > RATIO_LIMIT or results["all"]["cpu_s"] >= VALIDATE_LIMIT_S
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
