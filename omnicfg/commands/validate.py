"""``omnicfg validate``: every finding about profiles, on every platform."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from omnicfg.commands._fixing import DIFF, FIX, UNSAFE, check_fixing, fixed, shown
from omnicfg.commands._options import ENGINE, MODEL_DIR, OVERLAYS, PIPELINE, PLATFORM, SETTINGS, profile_names
from omnicfg.commands._outputs import format_names, outputs_of, put_out
from omnicfg.commands._plans import platforms_of
from omnicfg.parser import Argument, Option
from omnicfg.profile_files import profiles_in

HELP = "Check profiles: files, directories, or shipped names; the current directory where none is named."

PATHS = Annotated[
    list[Path],
    Argument("PATH", help="A file, a directory (searched for profiles) or a shipped name.", words=profile_names),
]
FORMATS = Annotated[
    list[str] | None,
    Option(
        "--format",
        metavar="NAME[:FILE]",
        help=f"How to tell the findings, and a file to write that to ({', '.join(format_names())}); repeatable.",
        words=format_names,
    ),
]
POLICIES = Annotated[
    list[Path] | None, Option("--policy", metavar="FILE", help="Policies of your own to check as well; repeatable.")
]
FAIL_ON = Annotated[str, Option("--fail-on", choices=("error", "warning"), help="What makes the exit code 1.")]


def run(
    paths: PATHS = [],  # noqa: B006  # never changed
    platform: PLATFORM = "all",
    pipeline: PIPELINE = None,
    model: MODEL_DIR = None,
    overlays: OVERLAYS = None,
    settings: SETTINGS = None,
    engine: ENGINE = "vllm-omni",
    policies: POLICIES = None,
    formats: FORMATS = None,
    fail_on: FAIL_ON = "error",
    fix: FIX = False,
    diff: DIFF = False,
    unsafe_fixes: UNSAFE = False,
) -> int:
    """Exit code: 1 where there is a finding as bad as ``fail_on``, else 0. A path that does not exist is trouble."""
    from omnicfg.check import check
    from omnicfg.diagnostics import Severity
    from omnicfg.review import Report, reviewed
    from omnicfg.settings import Settings

    outputs = outputs_of(formats or (["text"] if not diff else []))
    check_fixing(fix, diff, unsafe_fixes, outputs)
    platforms = platforms_of(platform)
    profiles = list(profiles_in(paths or [Path()]))

    def review() -> Report:
        checked = check(
            profiles,
            platforms,
            pipeline=pipeline,
            overlays=overlays or (),
            overrides=settings,
            engine=engine,
            model=model,
            policies=policies or (),
        )
        findings, suppressed = reviewed(checked, Settings())
        return Report(findings, tuple(map(str, profiles)), Severity(fail_on), suppressed)

    named = [*(paths or [Path()]), *(overlays or ())]
    differs = diff and shown(review, named, unsafe_fixes)
    if fix and not diff:
        fixed(review, named, unsafe_fixes)
    report = review()
    put_out(report, outputs)
    return report.exit_code or int(differs)
