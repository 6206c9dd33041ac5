"""The stage configs that old releases of vllm-omni shipped, taken from their wheels: they are not ours to commit."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final

from omnicfg.cache import make_once

ENVIRONMENT: Final = "OMNICFG_OLD_WHEELS"
COUNTS: Final = {"0.16.0": 20, "0.18.0": 35, "0.20.0": 20}
"""Release → how many stage configs its wheel has."""

_PACKAGE: Final = "vllm_omni/"
_FOLDERS: Final = "stage_configs/"


def stage_configs(version: str, cache: Path) -> dict[str, Path]:
    """Name → file, for each stage config of a release; names begin with the platform where it is for one.

    A directory named by the environment variable ``OMNICFG_OLD_WHEELS`` may hold the wheels; otherwise pip downloads
    them once into ``cache``. Raises ``LookupError``, never less than all of the files.
    """
    folder = make_once(cache / f"vllm-omni-{version}-stage-configs", lambda made: _unpack(version, made))
    found = {_name(path.relative_to(folder)): path for path in sorted(folder.rglob("*.yaml"))}
    if len(found) != COUNTS[version]:
        raise LookupError(f"{folder} holds {len(found)} stage configs; vllm-omni {version} ships {COUNTS[version]}")
    return found


def _name(path: Path) -> str:
    """``npu/qwen3_tts`` for ``platforms/npu/stage_configs/qwen3_tts.yaml``."""
    return f"{path.parts[1]}/{path.stem}" if path.parts[0] == "platforms" else path.stem


def _unpack(version: str, folder: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch, zipfile.ZipFile(_wheel(version, Path(scratch))) as archive:
        for name in archive.namelist():
            if _FOLDERS in name and name.endswith(".yaml"):
                target = folder / name.removeprefix(_PACKAGE)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(archive.read(name))


def _wheel(version: str, folder: Path) -> Path:
    given = os.environ.get(ENVIRONMENT)
    if given is None:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        done = subprocess.run(
            [*pip, "--dest", str(folder), f"vllm-omni=={version}"], check=False, capture_output=True, text=True
        )
        if done.returncode:
            raise LookupError(f"pip cannot download vllm-omni {version}: {done.stderr.strip()}")
    wheels = list(Path(given or folder).glob(f"vllm_omni-{version}-*.whl"))
    if not wheels:
        raise LookupError(f"no wheel of vllm-omni {version} in {given or folder}")
    return wheels[0]
