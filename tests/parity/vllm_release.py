"""How vLLM's own parser reads the arguments that omnicfg makes for it.

``python -m tests.parity.vllm_release [--wheel vllm-0.33.0-….whl]`` in an environment with vLLM's dependencies gives the
arguments of every stage of every shipped profile, on every platform, to the release's own parser, and compares what it
makes of them with the plan. Writes ``releases/vllm-<release>.json``: how many agree, and what does not.
No GPU is needed.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import omnicfg
from omnicfg.catalog.library import library
from omnicfg.catalog.upstream import deploy_schema
from omnicfg.catalog.vllm_args import engine_args
from omnicfg.export.vllm_environment import prepare, unpack
from omnicfg.export.vllm_omni import write_json
from omnicfg.serve.arguments import stage_arguments

from .tally import Tally

FOLDER = Path(__file__).parent / "releases"


def parity(arg_utils: Any, release: str) -> dict[str, Any]:
    """The whole file."""
    parser = _parser(arg_utils)
    tally = Tally()
    for stage in _stages():
        tally.add(_differences(parser, stage, release))
    return {
        "product": "vllm",
        "release": release,
        "asked": f"the stages of {len(library())} shipped profiles on {len(deploy_schema().platforms)} platforms",
        **tally.counts(),
        **tally.differing(),
    }


def _parser(arg_utils: Any) -> Any:
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    return arg_utils.AsyncEngineArgs.add_cli_args(FlexibleArgumentParser())


def _stages() -> Iterator[Mapping[str, Any]]:
    """Every stage that vLLM runs."""
    for name in library():
        for platform in deploy_schema().platforms:
            with contextlib.suppress(omnicfg.OmnicfgError):  # a profile that a platform refuses has no stages there
                plan = omnicfg.resolve(name, platform=platform).to_dict()
                yield from (stage for stage in plan["stages"] if stage["stage_type"] != "diffusion")


def _differences(parser: Any, stage: Mapping[str, Any], release: str) -> Iterator[str]:
    made = stage_arguments(stage, engine_args(release), release)
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            read = vars(parser.parse_args(list(made.arguments)))
    except SystemExit:
        yield said.getvalue().strip().splitlines()[-1]
        return
    except (ValueError, TypeError) as error:
        yield f"{type(error).__name__}: {error}"
        return
    left_out = {each.name for each in made.left_out}
    for name, value in stage["engine_args"].items():
        if name not in left_out and not _same(read.get(name), value):
            yield f"{name}: omnicfg {value!r}, vllm {read.get(name)!r}"


def _same(read: Any, written: Any) -> bool:
    """Whether the parser took a value as it was meant: a mapping may have become the config that it describes."""
    if isinstance(written, Mapping):
        return all(_same(_part(read, name), value) for name, value in written.items())
    if isinstance(written, list | tuple):
        return isinstance(read, list | tuple) and [*read] == [*written]
    return bool((read.name if isinstance(read, Enum) else read) == written)


def _part(read: Any, name: str) -> Any:
    return read.get(name) if isinstance(read, Mapping) else getattr(read, name, None)


def main() -> None:
    """Write the file of the release."""
    parser = argparse.ArgumentParser(prog="python -m tests.parity.vllm_release", description=(__doc__ or "").strip())
    parser.add_argument("--wheel", type=Path, help="ask this release instead of the installed one")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.wheel:
            unpack(options.wheel, Path(folder))
        arg_utils = prepare()
        release = arg_utils.VLLM_VERSION.partition("+")[0]
        content = parity(arg_utils, release)
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"vllm-{release}.json"
    write_json(path, content)
    sys.stdout.write(f"{path}\n{json.dumps({name: content[name] for name in ('answers', 'agreeing')})}\n")


if __name__ == "__main__":
    main()
