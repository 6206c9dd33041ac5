"""``python -m omnicfg.export.vllm_omni --out schemas/vllm-omni``: what omnicfg knows of a vllm-omni release.

Run where vllm-omni is installed; no GPU is needed. Writes ``<out>/<version>/pipelines.json`` and ``deploy.json``, and
``flags.json`` and ``variables.json``, which only the release that profiles are compiled for needs. The same release
gives the same bytes: everything whose order has no meaning is sorted.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Sequence
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

from omnicfg.export.omni_environment import prepare


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the files of the installed release."""
    parser = argparse.ArgumentParser(prog="python -m omnicfg.export.vllm_omni", description=(__doc__ or "").strip())
    parser.add_argument("--out", type=Path, required=True, help="folder that gets a folder named after the release")
    parser.add_argument("--no-flags", action="store_true", help="leave out flags and environment variables")
    options = parser.parse_args(arguments)
    out: Path = options.out
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is fetched: the topology does not depend on a model
    prepare()

    from omnicfg.export.omni_deploy import export_deploy
    from omnicfg.export.omni_pipelines import export_pipelines

    release = installed_version("vllm-omni")
    folder = out / release
    folder.mkdir(parents=True, exist_ok=True)
    made: dict[str, Callable[[str], dict[str, Any]]] = {"pipelines": export_pipelines, "deploy": export_deploy}
    if not options.no_flags:
        from omnicfg.export.omni_flags import export_flags
        from omnicfg.export.omni_variables import export_variables

        made |= {"flags": export_flags, "variables": export_variables}
    for name, export in made.items():
        content = export(release)
        write_json(folder / f"{name}.json", content)
        print(folder / f"{name}.json")


def write_json(path: Path, content: Any) -> None:
    """One field a line: a new release then reads as a diff."""
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
