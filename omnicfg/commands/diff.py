"""``omnicfg diff``: what changes effectively, between two profiles or between two revisions of all of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

from omnicfg.commands._options import EFFECTIVE, PIPELINE, PLATFORM, VLLM_VERSION, profile_names, refuse_unread
from omnicfg.commands._plans import Request, finish_of, platforms_of
from omnicfg.differences.comparison import Comparison, compare
from omnicfg.differences.gitdiff import GitDiff, git_diff
from omnicfg.differences.repository import Repository
from omnicfg.errors import OmnicfgError, UsageError
from omnicfg.parser import Argument, Option
from omnicfg.plan import Plan
from omnicfg.report.progress import working

HELP = "Show what changes effectively: between two profiles, with --git two revisions, with --versions two releases."

WORDS = Annotated[
    list[str],
    Argument(
        "A B",
        help="Two profiles; with --git: REV [REV2] [PATH...]; with --versions: V1..V2 [PATH...].",
        words=profile_names,
    ),
]
GIT = Annotated[bool, Option("--git", help="Compare all profiles of a revision with another, or the working tree.")]
MODEL = Annotated[
    Path | None,
    Option(
        "--model", metavar="DIR", help="Model directory: tells the pipeline, and what a token costs in the KV cache."
    ),
]
VERSIONS = Annotated[
    str | None,
    Option(
        "--versions",
        choices=("vllm", "vllm-omni"),
        help="Show what an upgrade from V1 to V2 changes for profiles (all that are found here, where none is named).",
    ),
]
FORMAT = Annotated[str, Option("--format", choices=("text", "json", "markdown"), help="How to print the changes.")]


def run(
    words: WORDS = [],  # noqa: B006  # never changed
    git: GIT = False,
    versions: VERSIONS = None,
    platform: PLATFORM = "all",
    effective: EFFECTIVE = False,
    vllm_version: VLLM_VERSION = None,
    pipeline: PIPELINE = None,
    model: MODEL = None,
    format: FORMAT = "text",
) -> int:
    """Exit code: 0 where nothing changes, 1 where something does. What cannot be compared at all is trouble."""
    platforms = platforms_of(platform)
    if versions is not None:
        # What an upgrade changes is told of the profiles as they are; options that would change them are refused.
        unread = {"--git": git, "--effective": effective, "--vllm-version": vllm_version, "--pipeline": pipeline}
        refuse_unread("diff --versions", {**unread, "--model": model}, "Leave it out, or `--versions`.")
        return _versions(versions, words, platforms, format)
    if not effective:
        refuse_unread(
            "diff", {"--vllm-version": vllm_version}, "It counts with `--effective`: add that, or leave it out."
        )
    finish = finish_of(effective, vllm_version)
    if git:
        revision, other, paths = _revisions(words)
        with working("comparing revisions"):
            found = git_diff(revision, other, paths, platforms=platforms, pipeline=pipeline, finish=finish, model=model)
        sys.stdout.write(_render_git(found, platforms, format))
        return int(bool(found.profiles))
    if len(words) != 2:
        raise UsageError("`diff` compares two profiles", "`omnicfg diff A B`, or `diff --git REV [REV2] [PATH...]`.")
    comparison = _compare(words[0], words[1], platforms, pipeline, finish, model)
    sys.stdout.write(_render(words[0], words[1], comparison, platforms, format))
    return int(comparison.differs)


def _compare(
    a: str,
    b: str,
    platforms: Sequence[str],
    pipeline: str | None,
    finish: Callable[[Plan], Plan],
    model: Path | None,
) -> Comparison:
    before, after = Request(a, pipeline, model), Request(b, pipeline, model)
    comparison = compare(
        lambda name: finish(before.plan(name)), lambda name: finish(after.plan(name)), platforms, model
    )
    if any(comparison.compiles_nowhere(platforms, side) for side in ("before", "after")):
        reasons = [diagnostic for refused in comparison.refused for diagnostic in refused.diagnostics]
        raise OmnicfgError(tuple(dict.fromkeys(reasons)))
    return comparison


def _revisions(words: Sequence[str]) -> tuple[str, str | None, list[str]]:
    """``REV [REV2] [PATH...]`` taken apart; a second word that is no revision is a path."""
    if not words:
        raise UsageError("`diff --git` needs a revision", "`omnicfg diff --git HEAD~1`, for example.")
    revision, *rest = words
    if not rest:
        return revision, None, []
    is_revision = Repository.around(Path()).find_commit(rest[0]) is not None
    if is_revision and Path(rest[0]).exists():
        raise UsageError(
            f"`{rest[0]}` is both a revision and a path",
            f"Write `./{rest[0]}` for the path, or `refs/...` for the revision.",
        )
    return (revision, rest[0], rest[1:]) if is_revision else (revision, None, rest)


def _versions(product: str, words: Sequence[str], platforms: Sequence[str], format: str) -> int:
    """``V1..V2 [PATH...]``."""
    from omnicfg.commands._checking import profiles_at
    from omnicfg.upgrade import upgrade, versions_of

    before, dots, after = (words[0] if words else "").partition("..")
    if not (before and dots and after):
        shipped = ", ".join(versions_of(product))
        example = f"`omnicfg diff --versions {product} V1..V2 [PATH...]`; shipped: {shipped}."
        raise UsageError("`diff --versions` needs two versions", example)
    profiles = profiles_at([Path(word) for word in words[1:]])
    with working(f"comparing {len(profiles)} profiles"):
        found = upgrade(product, before, after, profiles, platforms)
    if format == "json":
        sys.stdout.write(_json(found.to_dict()))
        return int(found.differs)
    from omnicfg.report.terminal import Style, has_colour, width_of
    from omnicfg.report.upgrade import render_upgrade, upgrade_markdown

    style, width = Style(has_colour(sys.stdout)), width_of(sys.stdout)
    is_markdown = format == "markdown"
    sys.stdout.write(
        upgrade_markdown(found, platforms) if is_markdown else render_upgrade(found, platforms, style, width)
    )
    return int(found.differs)


def _render(a: str, b: str, comparison: Comparison, platforms: Sequence[str], format: str) -> str:
    if format == "json":
        return _json(
            {
                "before": a,
                "after": b,
                "platforms": list(platforms),
                "changes": [grouped.to_dict() for grouped in comparison.changes],
                "refused": [refused.to_dict() for refused in comparison.refused],
            }
        )
    if format == "markdown":
        from omnicfg.report.changes_markdown import comparison_markdown

        return comparison_markdown(comparison, platforms)
    from omnicfg.report.changes import render_comparison
    from omnicfg.report.terminal import Style, has_colour, width_of

    return render_comparison(comparison, platforms, Style(has_colour(sys.stdout)), width_of(sys.stdout))


def _render_git(found: GitDiff, platforms: Sequence[str], format: str) -> str:
    if format == "json":
        return _json(
            {
                "before": found.before,
                "after": found.after,
                "platforms": list(platforms),
                "profiles": [each.to_dict() for each in found.profiles],
                "never_compiled": [each.to_dict() for each in found.never_compiled],
            }
        )
    if format == "markdown":
        from omnicfg.report.changes_markdown import git_diff_markdown

        return git_diff_markdown(found, platforms)
    from omnicfg.report.changes import render_git_diff
    from omnicfg.report.terminal import Style, has_colour, width_of

    return render_git_diff(found, platforms, Style(has_colour(sys.stdout)), width_of(sys.stdout))


def _json(data: Any) -> str:
    from omnicfg.report.json import dumps

    return dumps(data)
