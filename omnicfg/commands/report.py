"""``omnicfg report``: values, findings and changes of profiles in one HTML file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
from omnicfg.commands._options import EFFECTIVE, ENGINE, PIPELINE
from omnicfg.commands._plans import finish_of
from omnicfg.files import check_report, write_whole
from omnicfg.parser import Option

if TYPE_CHECKING:
    from omnicfg.overview import Overview

HELP = "Write values on all platforms, findings and what changes into one HTML file."

OUT = Annotated[Path, Option("--out", metavar="FILE", help="The HTML file to write.")]
GIT = Annotated[
    str | None, Option("--git", metavar="BASE", help="Show what changes effectively from this revision to the files.")
]


def run(
    out: OUT,
    paths: PATHS = [],  # noqa: B006  # never changed
    git: GIT = None,
    platform: WHERE = None,
    effective: EFFECTIVE = False,
    pipeline: PIPELINE = None,
    engine: ENGINE = None,
    vllm_version: TARGET = None,
    policies: POLICIES = None,
    fail_on: FAIL_ON = None,
    baseline: BASELINE = None,
    config: CONFIG = None,
    no_config: NO_CONFIG = False,
) -> int:
    """Exit code: that of ``validate``, 1 where there is a finding as bad as ``fail_on``; changes alone do not count."""
    from omnicfg.commands._baseline import baseline_of
    from omnicfg.overview import Request, overview
    from omnicfg.report.html.page import render_page
    from omnicfg.report.progress import working
    from omnicfg.rule import DEFAULT_ENGINE

    check_report(out)
    configured = configured_by(config, no_config)
    named = paths or [Path()]
    release = vllm_version or configured.vllm_version
    request = Request(
        paths=named,
        profiles=profiles_at(named),
        platforms=platforms_in_question(platform, configured),
        engine=engine or configured.engine or DEFAULT_ENGINE,
        settings=configured,
        pipeline=pipeline,
        vllm_version=release,
        policies=policies or configured.policies,
        baseline=baseline_of(baseline or configured.baseline),
        fail_on=failing(fail_on, configured),
        base=git,
        finish=finish_of(effective, release),
    )
    with working(f"looking at {len(request.profiles)} profiles"):
        found = overview(request)
        page = render_page(found)
    write_whole(out, page)
    print(_told(out, found), file=sys.stderr)
    return found.report.exit_code


def _told(out: Path, found: Overview) -> str:
    """What was written, in the words of ``validate`` and ``diff``."""
    from omnicfg.report.changes import summary
    from omnicfg.report.terminal import one_line
    from omnicfg.report.text import render_summary

    told = [render_summary(found.report).rstrip("\n")]
    told += [summary(found.difference)] if found.difference else []
    return one_line(f"{' '.join(told)} Written to {out}.")
