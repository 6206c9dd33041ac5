"""vllm-omni's own deploy files, taken from its wheel when tests run: they are not ours to commit."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final

from omnicfg.cache import make_once
from omnicfg.catalog.upstream import VLLM_OMNI

ENVIRONMENT: Final = "OMNICFG_UPSTREAM_DEPLOY"
COUNT: Final = 110
_INSIDE: Final = "vllm_omni/deploy/"


class UpstreamMissingError(Exception):
    """The files can be had from nowhere; the message says what to do."""


def deploy_files(cache: Path) -> Path:
    """The directory with the release's deploy files, downloaded once into ``cache``.

    A directory named by the environment variable ``OMNICFG_UPSTREAM_DEPLOY`` is used as it is. Raises
    :class:`UpstreamMissingError`, never less than all of the files.
    """
    given = os.environ.get(ENVIRONMENT)
    folder = Path(given) if given else make_once(cache / f"vllm-omni-{VLLM_OMNI}-deploy", _download)
    found = len(list(folder.glob("*.yaml")))
    if found != COUNT:
        raise UpstreamMissingError(f"{folder} holds {found} deploy files; vllm-omni {VLLM_OMNI} ships {COUNT}")
    return folder


def _download(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        wheel = _wheel(Path(scratch))
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if name.startswith(_INSIDE) and name.endswith(".yaml"):
                    (folder / name.removeprefix(_INSIDE)).write_bytes(archive.read(name))


def _wheel(folder: Path) -> Path:
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    done = subprocess.run(
        [*pip, "--dest", str(folder), f"vllm-omni=={VLLM_OMNI}"], check=False, capture_output=True, text=True
    )
    wheels = list(folder.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        raise UpstreamMissingError(
            f"pip cannot download vllm-omni {VLLM_OMNI}: {done.stderr.strip() or 'no wheel'}\n"
            f"Set {ENVIRONMENT} to a directory with the files of its vllm_omni/deploy/."
        )
    return wheels[0]
