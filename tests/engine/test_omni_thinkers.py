"""Rows of the Thinkers that records are about: vLLM's own classes, on tiny random checkpoints of their architectures.

vLLM's classes import torchvision, even where no image is ever seen. MiniCPM-o's gets it from elsewhere where it is not
installed; the others are left out there (Qwen3-Omni's is served, with pictures, by ``tests/serve/test_speech.py``).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.engine.support import engine_environment, run_python
from tests.vision import found

pytest.importorskip("vllm", reason="starts the engine")
pytestmark = pytest.mark.slow

TOLERANCE = 5e-5  # of values up to 6, in float32


def has_torchvision() -> bool:
    """Asked of another process: a torchvision that was built for another torch breaks this one."""
    return (
        subprocess.run([sys.executable, "-c", "import torchvision"], capture_output=True, check=False).returncode == 0
    )


needs_torchvision = pytest.mark.skipif(not has_torchvision(), reason="vLLM's multimodal classes import torchvision")


@pytest.mark.parametrize(
    "name",
    [
        "qwen3",
        "minicpmo_4_5",
        *(pytest.param(name, marks=needs_torchvision) for name in ("qwen2_5_omni", "qwen3_omni")),
    ],
)
def test_every_row_is_transformers(
    name: str, tmp_path: Path, pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> None:
    environment = engine_environment(tmp_path, VLLM_CPU_KVCACHE_SPACE="1")
    if name == "minicpmo_4_5":
        vision = found(pytestconfig, tmp_path_factory)
        if isinstance(vision, str):
            pytest.skip(vision)
        environment["PYTHONPATH"] = os.pathsep.join([environment["PYTHONPATH"], *vision])
    checkpoint, log = tmp_path / name, tmp_path / "log"
    code = run_python(["-m", "tests.engine.omni_thinkers", str(checkpoint), name], log, environment, timeout=900)
    assert code == 0, log.read_text()[-4000:]
    verdicts: list[dict[str, Any]] = json.loads((checkpoint / "verdicts.json").read_text())
    assert {verdict["scenario"]: verdict["worst"] < TOLERANCE for verdict in verdicts} == {
        "hit": True,
        "partial hit": True,
        "crowd": True,
        "same step": True,
    }
    assert [verdict["incomplete"] for verdict in verdicts] == [0] * 4
    assert all(verdict["hit_tokens"] > 0 for verdict in verdicts)
