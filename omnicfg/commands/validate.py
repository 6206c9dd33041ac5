"""``omnicfg validate``: every finding about profiles, on every platform."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from omnicfg.commands._options import ENGINE, MODEL_DIR, OVERLAYS, PIPELINE, PLATFORM, SETTINGS, profile_names
from omnicfg.commands._plans import platforms_of
from omnicfg.diagnostics import Diagnostic, Severity
from omnicfg.parser import Argument, Option
from omnicfg.profile_files import profiles_in

HELP = "Check profiles: files, directories, or shipped names; the current directory where none is named."

PATHS = Annotated[
    list[Path],
    Argument("PATH", help="A file, a directory (searched for profiles) or a shipped name.", words=profile_names),
]
FORMAT = Annotated[str, Option("--format", choices=("text", "json"), help="How to print the findings.")]
FAIL_ON = Annotated[str, Option("--fail-on", choices=("error", "warning"), help="What makes the exit code 1.")]


def run(
    paths: PATHS = [],  # noqa: B006  # never changed
    platform: PLATFORM = "all",
    pipeline: PIPELINE = None,
    model: MODEL_DIR = None,
    overlays: OVERLAYS = None,
    settings: SETTINGS = None,
    engine: ENGINE = "vllm-omni",
    format: FORMAT = "text",
    fail_on: FAIL_ON = "error",
) -> int:
    """Exit code: 1 where there is a finding as bad as ``fail_on``, else 0. A path that does not exist is trouble."""
    from omnicfg.check import validate

    platforms_of(platform)
    profiles = list(profiles_in(paths or [Path()]))
    found = validate(
        profiles,
        platform=platform,
        pipeline=pipeline,
        overlays=overlays or (),
        overrides=settings,
        engine=engine,
        model=model,
    )
    _print(found, len(profiles), format)
    worst = Severity(fail_on)
    return int(any(diagnostic.severity.rank <= worst.rank for diagnostic in found))


def _print(found: list[Diagnostic], profiles: int, format: str) -> None:
    if format == "json":
        from omnicfg.report.json import render_report

        sys.stdout.write(render_report(found, profiles))
        return
    from omnicfg.report.terminal import has_colour, width_of
    from omnicfg.report.text import render_diagnostics, render_summary

    text = render_diagnostics(found, colour=has_colour(sys.stdout), width=width_of(sys.stdout))
    sys.stdout.write(text + render_summary(found, profiles))
