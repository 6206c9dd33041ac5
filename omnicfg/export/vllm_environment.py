"""Makes vLLM's arguments importable as its source declares them: no platform, no plugin, no environment variable.

A platform rewrites arguments (the CPU's block size, Ascend's choices), plugins add to the parser, and a few defaults
are read from environment variables. None of that belongs into the data of a release. vLLM's Python files are enough:
nothing compiled is needed, so an unpacked wheel will do.
"""

from __future__ import annotations

import importlib
import os
import sys
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

_PREFIXES = ("VLLM_", "HF_", "CUDA_", "TORCH_", "RAY_")
# PyPI's builds are linked against the CUDA build of torch and do not import beside a CPU torch; no argument needs them.
_HIDDEN = ("torchvision", "torchaudio", "torchcodec")
_NEEDED = (".py", ".json", "METADATA", "entry_points.txt")


def unpack(wheel: Path, folder: Path) -> None:
    """Unpack what the exporter needs of a wheel, and put it before everything else on the import path."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder, [name for name in archive.namelist() if name.endswith(_NEEDED)])
    sys.path.insert(0, str(folder))


def prepare() -> ModuleType:
    """Import ``vllm.engine.arg_utils`` on a platform that changes nothing.

    Raises:
        ImportError: where vLLM, or something that it imports, is not installed.
    """
    for name in [name for name in os.environ if name.startswith(_PREFIXES)]:
        del os.environ[name]
    os.environ |= {"HF_HUB_OFFLINE": "1", "VLLM_PLUGINS": "", "VLLM_NO_USAGE_STATS": "1"}
    for name in _HIDDEN:
        sys.modules[name] = None  # type: ignore[assignment]  # Python's own way to say: there is no such module
    sys.argv = [sys.argv[0], "--help"]  # vLLM fills in help texts only when it sees this at import
    platforms: Any = importlib.import_module("vllm.platforms")
    platforms._current_platform = _neutral_platform()
    return importlib.import_module("vllm.engine.arg_utils")


def _neutral_platform() -> object:
    from vllm.platforms.interface import Platform, PlatformEnum

    class NeutralPlatform(Platform):
        """Takes vLLM's defaults as they are; named after the device that vLLM is written for."""

        _enum = PlatformEnum.UNSPECIFIED
        device_name = device_type = "cuda"

        @classmethod
        def import_kernels(cls) -> None:
            """None: they may be absent, or compiled for another processor."""

    return NeutralPlatform()
