"""``python -m omnicfg.export.vllm --out schemas/vllm``: the engine args of a vLLM release as data.

Run where vLLM is installed, or with ``--wheel vllm-0.33.0-….whl`` for another release: the wheel's Python files are
read with the dependencies of the environment; no GPU and nothing compiled is needed. Writes ``<out>/<version>.json``::

    {"vllm": "0.32.0",
     "args": {name: {"flags", "type", "nullable", "default", "choices", "help", "group", "deprecated", "cli", …}},
     "configs": {class: {"help", "open", "fields": {name: {"type", "nullable", "default", "choices", "help", …}}}},
     "resolved": {name: {"value", "when", "source", …}},
     "environment": {"Class.field": expression},
     "variables": [name, …]}

- ``args``: every field of ``AsyncEngineArgs``, by its Python name. ``flags`` are all that the command line takes, those
  that its help shows first. ``type`` is what the config class behind the arg validates, in the language of
  ``vllm_types``; ``choices`` repeats it where it is a closed choice. ``default`` is what the dataclass declares, ``{}``
  for a config at its own defaults. ``help`` is the first paragraph of vLLM's text, ``group`` the config class under
  which its help lists the arg. ``cli`` says how the command line takes the value: flag (with a form for false), switch
  (without), flag_or_value, int, float, str, json, json_or_str, list, human_int ("25.6k", "1M"), human_int_or_auto; null
  where no flag exists. Only where they say something: ``cli_choices`` and ``cli_default`` where the parser differs from
  the dataclass, ``deprecation`` where vLLM prints a notice, ``replaced_by`` where that names a successor.
- ``configs``: the config classes that a type names, without the fields that vLLM fills in itself; ``required`` marks a
  field without a default. A null default where the type refuses null means: decided later, and not by writing null.
- ``resolved``: what unset args become (``vllm_resolved``).
- ``environment``: the defaults that vLLM reads from its environment; the data holds what they are without one.
- ``variables``: the environment variables that vLLM knows (``vllm/envs.py``); it warns of others that begin as its own.

``--changes`` compares the releases in ``--out`` with each other instead, and writes ``<out>/changes.json``; vLLM is not
needed for that. The same release gives the same bytes.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from omnicfg.export.vllm_changes import changes
from omnicfg.export.vllm_environment import prepare, unpack
from omnicfg.export.vllm_types import accepts


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the data; the exit code is 2 where vLLM cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m omnicfg.export.vllm", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder that gets a file named after the release")
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--wheel", type=Path, help="read this release instead of the installed one")
    source.add_argument("--changes", action="store_true", help="compare the releases in the folder")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    if options.changes:
        write_json(options.out / "changes.json", changes(read_releases(options.out)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        try:
            if options.wheel:
                unpack(options.wheel, Path(folder))
            release = export(prepare())
        except (ImportError, LookupError, OSError) as error:
            print(f"cannot export vLLM's engine args: {error}", file=sys.stderr)
            return 2
    write_json(options.out / f"{release['vllm']}.json", release)
    return 0


def export(arg_utils: ModuleType) -> dict[str, Any]:
    """The data of the release that ``arg_utils`` belongs to.

    Raises:
        LookupError: where an arg, a config or a resolution is not what the exporter knows how to read.
    """
    from omnicfg.export.vllm_args import ArgsExporter
    from omnicfg.export.vllm_resolved import resolutions

    exporter = ArgsExporter(arg_utils)
    args = exporter.args()
    release = {
        "vllm": arg_utils.VLLM_VERSION.partition("+")[0],
        "args": args,
        "configs": exporter.configs(),
        "resolved": resolutions(arg_utils),
        "environment": exporter.environment(),
        "variables": sorted(import_module("vllm.envs").environment_variables),
    }
    wrong = wrong_defaults(release)
    if wrong:
        raise LookupError(f"defaults that their own type refuses: {', '.join(wrong)}")
    return release


def wrong_defaults(release: Mapping[str, Any]) -> list[str]:
    """Args and config fields whose default their type does not accept: the exporter misread one of the two.

    A config field without a value may be null and yet refuse a null that is written down.
    """
    configs = release["configs"]
    records = dict(release["args"])
    for cls, config in configs.items():
        fields = config["fields"].items()
        records |= {f"{cls}.{name}": record for name, record in fields if record["default"] is not None}
    return [name for name, record in records.items() if not accepts(record["type"], record["default"], configs)]


def read_releases(folder: Path) -> list[dict[str, Any]]:
    """The exported releases of a folder, oldest first."""
    releases = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("[0-9]*.json")]
    return sorted(releases, key=lambda release: [int(part) for part in release["vllm"].split(".")])


def write_json(path: Path, content: Any) -> None:
    """One field a line: a new release then reads as a diff."""
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(path)


if __name__ == "__main__":
    sys.exit(main())
