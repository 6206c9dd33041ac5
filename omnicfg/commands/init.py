"""``omnicfg init``: a first file, from answers or from options."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from omnicfg.commands._options import deploy_platforms, pipeline_keys, profile_names
from omnicfg.errors import OmnicfgError, UsageError
from omnicfg.parser import Argument, Option

if TYPE_CHECKING:
    from omnicfg.init.request import Request
    from omnicfg.passes.override import Override

HELP = "Write an overlay on a profile, or a profile of your own, with comments; asks where options leave it open."

FILE = Annotated[Path | None, Argument("FILE", help="The file to write.")]
ON = Annotated[
    str | None, Option("--on", metavar="PROFILE", help="Write an overlay on this profile.", words=profile_names)
]
PIPELINE = Annotated[
    str | None,
    Option(
        "--pipeline", metavar="KEY", help="Write a profile for this pipeline; with --on: its own.", words=pipeline_keys
    ),
]
PLATFORM = Annotated[
    str | None,
    Option("--platform", metavar="P", help="The platform that it is for; else cuda.", words=deploy_platforms),
]
SETTINGS = Annotated[
    list[str] | None,
    Option("--set", metavar="KEY=VALUE", help="One value to write, such as stages.0.max_num_seqs=8; repeatable."),
]
FORCE = Annotated[bool, Option("--force", help="Replace a file that is there.")]


def run(
    file: FILE = None,
    on: ON = None,
    pipeline: PIPELINE = None,
    platform: PLATFORM = None,
    settings: SETTINGS = None,
    force: FORCE = False,
) -> int:
    """Exit code: 0, or 1 where what was asked for has errors, and nothing is written."""
    from omnicfg.compiler import check_platform, parsed_overrides

    if platform is not None:
        check_platform(platform)
    if file is not None:
        _check_free(file, force)
    overrides = parsed_overrides(settings)
    if file is None or (on is None and pipeline is None):
        request = _asked(file, on, pipeline, platform, overrides, force)
    else:
        request = _request(file, on, pipeline, platform or "cuda", overrides)
    return _write(request)


def _request(file: Path, on: str | None, pipeline: str | None, platform: str, overrides: list[Override]) -> Request:
    from omnicfg.init.request import for_pipeline, on_profile

    if on is not None:
        return on_profile(file, on, platform, overrides, pipeline)
    from omnicfg.init.interview import known_pipeline

    return for_pipeline(file, known_pipeline(str(pipeline)), platform, overrides)


def _asked(
    file: Path | None,
    on: str | None,
    pipeline: str | None,
    platform: str | None,
    overrides: list[Override],
    force: bool,
) -> Request:
    """The request that a person at the terminal makes. Raises :class:`UsageError` where there is nobody to ask."""
    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()):
        missing = "FILE is missing" if file is None else "it is not said what to write"
        hint = "`omnicfg init FILE --on PROFILE` or `omnicfg init FILE --pipeline KEY`; at a terminal, it asks."
        raise UsageError(missing, hint)
    from omnicfg.init.interview import interview

    return interview(file, on, pipeline, platform, overrides, lambda path: _check_free(path, force))


def _check_free(file: Path, force: bool) -> None:
    """Raises :class:`UsageError` where the file cannot be written, or is there and is not to be replaced."""
    from omnicfg.files import check_writable

    check_writable(file)
    if file.suffix.lower() not in (".yaml", ".yml"):
        raise UsageError(f"`{file}` is not the name of a profile", "Give it the ending `.yaml`.")
    if (file.exists() or file.is_symlink()) and not force:
        raise UsageError(f"`{file}` is there already", "Name another file, or replace it with `--force`.")


def _write(request: Request) -> int:
    """Writes the file, unless ``validate`` would find an error in it, which is told instead."""
    from omnicfg.files import write_whole
    from omnicfg.init.proof import findings_of
    from omnicfg.init.text import base_reference, text_of
    from omnicfg.report.terminal import one_line
    from omnicfg.report.text import render_errors

    text = text_of(request)
    found = findings_of(request, text)
    if found:
        print(render_errors(OmnicfgError(found)), end="", file=sys.stderr)
        print(one_line(f"{request.path} was not written."), file=sys.stderr)
        return 1
    write_whole(request.path, text)
    words = [str(request.path)]
    if request.base is not None and base_reference(request) is None:
        words = [Path(request.base.shown).stem, "--overlay", *words]
    print(one_line(f"{request.path} is written. `omnicfg validate {shlex.join(words)}` checks it."))
    return 0
