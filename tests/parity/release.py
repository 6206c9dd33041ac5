"""How omnicfg, with the data of the release that is installed, resolves the deploy files that this release ships.

``python -m tests.parity.release`` in an environment with vllm-omni asks both: vllm-omni's own loader, and omnicfg told
by ``schemas/vllm-omni/<release>``. Writes ``releases/vllm-omni-<release>.json``: how many answers agree, and where the
others differ. For the release that profiles are compiled for, ``test_parity.py`` asks much more than that.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import warnings
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from omnicfg.catalog import upstream
from omnicfg.confine import confined
from omnicfg.export.omni_environment import prepare
from omnicfg.export.vllm_omni import write_json

from .answers import answer, differences
from .oracle import HERE, PLATFORMS, decide, deploy_folder, resolve
from .oracle import answer as upstream_answer
from .tally import Tally

FOLDER = HERE / "releases"


def compile_as(release: str) -> None:
    """Let omnicfg take the deploy language of another release; before anything of it has been read."""
    upstream._DIRECTORY = f"schemas/vllm-omni/{release}"  # type: ignore[misc]


def parity(release: str) -> dict[str, Any]:
    """The whole file."""
    given = json.loads((HERE / "pipelines_of.json").read_text(encoding="utf-8"))
    files = sorted(deploy_folder().glob("*.yaml"))
    undecided: list[str] = []
    tally = Tally()
    for path in files:
        try:
            pipeline = decide(path, given)["pipeline"]
        except LookupError:
            undecided.append(path.name)
            continue
        for platform in PLATFORMS:
            tally.add(_differences(path, pipeline, platform))
    return {
        "product": "vllm-omni",
        "release": release,
        "asked": f"{len(files) - len(undecided)} deploy files on {len(PLATFORMS)} platforms",
        **tally.counts(),
        "without_pipeline": undecided,
        **tally.differing(),
    }


def _differences(path: Path, pipeline: str, platform: str) -> Iterator[str]:
    """Where the two answers differ, without the platform: most differences hold on each."""
    theirs = upstream_answer(resolve, path, pipeline, platform)
    kept = {key: value for key, value in theirs.items() if key in ("ok", "deploy", "stages")}
    for line in differences(answer(path, platform, pipeline), kept):
        yield f"{path.name}{line}"


def main() -> None:
    """Write the file of the installed release."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    prepare()
    release = version("vllm-omni")
    compile_as(release)
    FOLDER.mkdir(exist_ok=True)
    with confined(allow_env=["*"]):
        write_json(FOLDER / f"vllm-omni-{release}.json", parity(release))
    sys.stdout.write(f"{FOLDER / f'vllm-omni-{release}.json'}\n")


if __name__ == "__main__":
    main()
