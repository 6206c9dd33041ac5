"""``omnicfg validate``: every finding about profiles, on every platform."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from omnicfg.commands._baseline import known_findings, tell_stale, written
from omnicfg.commands._checking import (
    BASELINE,
    CONFIG,
    FAIL_ON,
    NO_CONFIG,
    PATHS,
    POLICIES,
    TARGET,
    WHERE,
    configured_by,
    failing,
    platforms_in_question,
    profiles_at,
)
from omnicfg.commands._estimates import DEVICE_MEMORY, check_device_memory, tell_estimates_of
from omnicfg.commands._fixing import DIFF, FIX, UNSAFE, check_fixing, fixed, shown
from omnicfg.commands._options import (
    ENGINE,
    MODEL_DIR,
    OVERLAYS,
    PIPELINE,
    SETTINGS,
    refuse_unread,
)
from omnicfg.commands._outputs import outputs_of, put_out
from omnicfg.files import check_report
from omnicfg.parser import Option
from omnicfg.report.formats import format_names

HELP = "Check profiles: files, directories, or shipped names; the current directory where none is named."

FORMATS = Annotated[
    list[str] | None,
    Option(
        "--format",
        metavar="NAME[:FILE]",
        help=f"How to tell the findings, and a file to write that to ({', '.join(format_names())}); repeatable.",
        words=format_names,
    ),
]
WRITE_BASELINE = Annotated[
    Path | None, Option("--write-baseline", metavar="FILE", help="Write all findings into this file as known.")
]


def run(
    paths: PATHS = [],  # noqa: B006  # never changed
    platform: WHERE = None,
    pipeline: PIPELINE = None,
    model: MODEL_DIR = None,
    device_memory: DEVICE_MEMORY = None,
    overlays: OVERLAYS = None,
    settings: SETTINGS = None,
    engine: ENGINE = None,
    vllm_version: TARGET = None,
    policies: POLICIES = None,
    formats: FORMATS = None,
    fail_on: FAIL_ON = None,
    baseline: BASELINE = None,
    write_baseline: WRITE_BASELINE = None,
    config: CONFIG = None,
    no_config: NO_CONFIG = False,
    fix: FIX = False,
    diff: DIFF = False,
    unsafe_fixes: UNSAFE = False,
) -> int:
    """Exit code: 1 where there is a finding as bad as ``fail_on``, else 0. A path that does not exist is trouble.

    What is given here goes before what is configured.
    """
    from omnicfg.check import check
    from omnicfg.findings.review import Report, report_of
    from omnicfg.report.progress import working
    from omnicfg.rule import DEFAULT_ENGINE

    check_device_memory(model, device_memory)
    configured = configured_by(config, no_config)
    outputs = outputs_of(formats or ([] if diff else configured.formats or ["text"]))
    check_fixing(fix, diff, unsafe_fixes, outputs)
    platforms = platforms_in_question(platform, configured)
    if write_baseline is not None:
        refuse_unread(
            "validate --write-baseline", {"--fail-on": fail_on}, "What becomes known fails nothing: leave it out."
        )
        check_report(write_baseline)
    known = known_findings(baseline, write_baseline, configured.baseline)
    profiles = profiles_at(paths)

    def review() -> Report:
        with working("checking profiles", len(profiles)) as work:
            checked = check(
                profiles,
                platforms,
                pipeline=pipeline,
                overlays=overlays or (),
                overrides=settings,
                engine=engine or configured.engine or DEFAULT_ENGINE,
                model=model,
                policies=policies or configured.policies,
                vllm_version=vllm_version or configured.vllm_version,
                look=lambda looked: work.step(next(iter(looked.files))),
            )
        return report_of(checked, configured, known, failing(fail_on, configured))

    named = [*(paths or [Path()]), *(overlays or ())]
    differs = diff and shown(review, named, unsafe_fixes)
    if fix and not diff:
        fixed(review, named, unsafe_fixes)
    report = review()
    if write_baseline is not None:
        report = written(report, write_baseline)
    tell_stale(report, known)
    put_out(report, outputs)
    if model is not None:
        names = [str(profile) for profile in profiles]
        tell_estimates_of(names, platforms, model, device_memory, pipeline, overlays, settings)
    return report.exit_code or int(differs)
