"""What both parts share: where results go, time that is left, and the engine's entry point on a bare machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from omnicfg.files import write_whole
from omnicfg.serve.child import child


@dataclass(frozen=True)
class Results:
    """One JSON file a measurement under ``folder``: what is there is not measured again."""

    folder: Path

    def done(self, name: str) -> bool:
        """Whether the measurement is there already."""
        return self.path(name).exists()

    def path(self, name: str) -> Path:
        """Where the measurement lies."""
        return self.folder / f"{name}.json"

    def write(self, name: str, result: dict[str, Any]) -> None:
        """Keep a measurement, whole or not at all."""
        write_whole(self.path(name), json.dumps(result, indent=1) + "\n")

    def read(self, name: str) -> dict[str, Any]:
        """A measurement that is there."""
        result: dict[str, Any] = json.loads(self.path(name).read_text())
        return result


class Budget:
    """Seconds that this call may still take."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds left, below zero when overdrawn."""
        return self._end - time.monotonic()


def engine_environment(folder: Path, **more: str) -> dict[str, str]:
    """The environment of a vLLM that finds the engine's plugin, installed or not.

    A checkout that pip has not installed has no entry point; a folder with nothing but a distribution's
    metadata, on the import path, is enough for one.
    """
    paths = [str(Path(__file__).resolve().parents[2])]
    if not any(point.name == "omnicfg" for point in entry_points(group="vllm.general_plugins")):
        paths.append(str(write_entry_point(folder / "site")))
    inherited = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    python_path = os.pathsep.join([*inherited, *paths])
    return {**os.environ, "PYTHONPATH": python_path, "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", **more}


def write_entry_point(site: Path) -> Path:
    """A folder with nothing but the metadata of a distribution that has the engine's entry point; ``site``."""
    metadata = site / "omnicfg_engine-0.dist-info"
    metadata.mkdir(parents=True, exist_ok=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: omnicfg-engine\nVersion: 0\n")
    points = "[vllm.general_plugins]\nomnicfg = omnicfg.engine.plugin:register\n"
    (metadata / "entry_points.txt").write_text(points)
    return site


def run_python(arguments: list[str], log: Path, environment: dict[str, str], timeout: float) -> int:
    """Run ``python ARGUMENTS`` with its output in ``log``; the exit code, 124 when the time was up.

    Nothing of it is left then, nor where this process is killed: vLLM's own processes outlive their parent.
    """
    with (
        log.open("w") as output,
        child([sys.executable, *arguments], environment, grace_s=0, stdout=output, stderr=subprocess.STDOUT) as process,
    ):
        try:
            return process.wait(timeout)
        except subprocess.TimeoutExpired:
            return 124
