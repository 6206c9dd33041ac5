"""Several profiles as a reviewer looks at them: values on all platforms, findings where they stand, what changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from omnicfg.check import Looked, check
from omnicfg.diagnostics import Diagnostic, Severity
from omnicfg.differences.gitdiff import GitDiff, ProfileDiff, git_diff
from omnicfg.differences.repository import Repository
from omnicfg.findings.review import Report, report_of
from omnicfg.overview.sheet import Block, sheet
from omnicfg.plan import Plan
from omnicfg.refusals import REFUSALS

if TYPE_CHECKING:
    from omnicfg.findings.baseline import Baseline
    from omnicfg.findings.settings import Settings

Finish = Callable[[Plan], Plan]
_IN_PROFILE: Final = " (in profile "
_Place = tuple[str, str, int, int, int, int, int | None]


@dataclass(frozen=True)
class Request:
    """What is to be looked at, and how: as ``validate`` and ``diff`` take it.

    ``finish`` is applied to each plan before its values are shown or compared. ``base`` is a revision to compare with.
    """

    paths: Sequence[Path]
    profiles: Sequence[Path]
    platforms: Sequence[str]
    engine: str
    settings: Settings
    pipeline: str | None = None
    vllm_version: str | None = None
    policies: Sequence[Path] = ()
    baseline: Baseline | None = None
    fail_on: Severity = Severity.ERROR
    base: str | None = None
    finish: Finish = lambda plan: plan


@dataclass(frozen=True)
class ProfileView:
    """One profile.

    ``files`` are its own file and its bases, the nearest first. ``refused`` says, by platform, why it does not compile
    there. ``findings`` are positions in the report's findings; ``change`` is what differs from the base revision.
    """

    name: str
    files: tuple[str, ...]
    pipeline: str | None
    blocks: tuple[Block, ...]
    refused: dict[str, str]
    findings: tuple[int, ...]
    change: ProfileDiff | None


@dataclass(frozen=True)
class Overview:
    """All of it; ``difference`` is ``None`` where nothing was compared."""

    platforms: Sequence[str]
    profiles: tuple[ProfileView, ...]
    report: Report
    difference: GitDiff | None


class _Seen:
    """What is kept of a profile once it has been looked at."""

    def __init__(self, looked: Looked, request: Request) -> None:
        subject = looked.subject
        self.name = next(iter(looked.files))
        self.path = looked.files[self.name]
        documents = [] if subject is None else subject.profile.chain.documents
        self.files = tuple(dict.fromkeys([document.mark.file for document in documents] or looked.files))
        self.pipeline = None if subject is None else subject.pipeline
        plans = {} if subject is None else {name: request.finish(plan) for name, plan in subject.plans.items()}
        self.blocks = sheet(plans, request.platforms, request.engine)
        self.refused = {
            platform: _reason(looked.findings, platform) for platform in request.platforms if platform not in plans
        }
        self.messages: dict[_Place, list[str]] = {}
        for finding in looked.findings:
            self.messages.setdefault(_place(finding), []).append(finding.message)

    def shows(self, finding: Diagnostic) -> bool:
        """Whether a finding, as it is told of all profiles together, was made in this one."""
        messages = self.messages.get(_place(finding), ())
        return any(finding.message == each or finding.message.startswith(each + _IN_PROFILE) for each in messages)


def overview(request: Request) -> Overview:
    """Compile, check and compare. Raises :class:`~omnicfg.errors.OmnicfgError` for what makes no sense to ask."""
    difference = _difference(request)
    seen: list[_Seen] = []
    checked = check(
        request.profiles,
        request.platforms,
        pipeline=request.pipeline,
        engine=request.engine,
        policies=request.policies,
        vllm_version=request.vllm_version,
        look=lambda looked: seen.append(_Seen(looked, request)),
    )
    report = report_of(checked, request.settings, request.baseline, request.fail_on)
    changes = _changes(difference, seen)
    found = _by_profile(report.findings, seen)
    views = tuple(
        ProfileView(each.name, each.files, each.pipeline, each.blocks, each.refused, found[index], changes.get(index))
        for index, each in enumerate(seen)
    )
    return Overview(tuple(request.platforms), views, report, difference)


def _difference(request: Request) -> GitDiff | None:
    if request.base is None:
        return None
    paths = list(map(str, request.paths))
    return git_diff(
        request.base, paths=paths, platforms=request.platforms, pipeline=request.pipeline, finish=request.finish
    )


def _changes(difference: GitDiff | None, seen: Sequence[_Seen]) -> dict[int, ProfileDiff]:
    """What differs, by the position of the profile that it is about."""
    if difference is None:
        return {}
    repository = Repository.around(Path())
    changes = {each.path: each for each in difference.profiles}
    names = [repository.relative(str(each.path), Path()) for each in seen]
    return {index: changes[name] for index, name in enumerate(names) if name in changes}


def _by_profile(findings: Sequence[Diagnostic], seen: Sequence[_Seen]) -> list[tuple[int, ...]]:
    """For each profile, the positions of its findings; one about a file alone counts for all profiles that read it."""
    found: list[list[int]] = [[] for _ in seen]
    for number, finding in enumerate(findings):
        shown = [index for index, each in enumerate(seen) if each.shows(finding)]
        for index in shown or [index for index, each in enumerate(seen) if finding.path in each.files]:
            found[index].append(number)
    return [tuple(numbers) for numbers in found]


def _place(finding: Diagnostic) -> _Place:
    return (
        finding.code,
        finding.path,
        finding.line,
        finding.column,
        finding.end_line,
        finding.end_column,
        finding.stage_id,
    )


def _reason(findings: Iterable[Diagnostic], platform: str) -> str:
    """Why a profile has no plan on a platform: the refusal that is about it, or about all of them."""
    codes = {refusal.code for refusal in REFUSALS.values()}
    about = (each for each in findings if each.platform is None or platform in each.platform.split(","))
    return next((f"{each.code} {each.message}" for each in about if each.code in codes), "")
