"""torchvision beside vLLM's CPU build, for a test's server: what vLLM's multimodal classes import.

PyPI's wheel is linked against the CUDA build of torch, so its compiled part does not load here; what the processors of
pictures use of it is written in Python. The operators of that part are declared, then it can be imported.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final

import pytest

from omnicfg.cache import make_once

VERSION: Final = "0.28.0"
_DECLARED: Final = "from omnicfg.export.omni_environment import declare_operators\n\ndeclare_operators()\n"


class VisionMissingError(Exception):
    """torchvision can be had from nowhere; the message says why."""


def python_path(cache: Path) -> list[str]:
    """What has to be on ``PYTHONPATH`` for torchvision to be there; nothing where it is.

    It is downloaded once into ``cache``. Raises :class:`VisionMissingError`.
    """
    here = subprocess.run([sys.executable, "-c", "import torchvision"], capture_output=True, check=False)
    if here.returncode == 0:
        return []
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return [str(make_once(cache / f"torchvision-{VERSION}-python-{version}", _download))]


def found(config: pytest.Config, folders: pytest.TempPathFactory) -> list[str] | str:
    """What has to be on ``PYTHONPATH``, or why there is no torchvision; kept from one run of the tests to the next."""
    keeps = config.pluginmanager.hasplugin("cacheprovider")
    try:
        return python_path(config.cache.mkdir("vision") if keeps else folders.mktemp("vision"))
    except VisionMissingError as error:
        return str(error)


def _download(folder: Path) -> None:
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    with tempfile.TemporaryDirectory() as scratch:
        command = [*pip, "--dest", scratch, f"torchvision=={VERSION}"]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        wheels = list(Path(scratch).glob("*.whl"))
        if done.returncode or len(wheels) != 1:
            raise VisionMissingError(f"pip cannot download torchvision {VERSION}: {done.stderr.strip() or 'no wheel'}")
        with zipfile.ZipFile(wheels[0]) as archive:
            archive.extractall(folder)
    start = folder / "torchvision" / "__init__.py"
    start.write_text(_DECLARED + start.read_text(encoding="utf-8"), encoding="utf-8")
