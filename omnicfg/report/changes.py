"""What differs between two profiles, or between all profiles of two revisions, as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from omnicfg.diagnostics import Diagnostic
from omnicfg.differences.compare import Change
from omnicfg.differences.comparison import Comparison, Grouped, Refused
from omnicfg.differences.gitdiff import GitDiff, ProfileDiff
from omnicfg.report.table import Cell, Row, render_table
from omnicfg.report.terminal import Style, one_line
from omnicfg.report.yaml import inline
from omnicfg.tree import Mark

_HEADERS = ("stage", "key", "before", "after", "platforms", "evidence")
_STATUS = {
    "added": "new",
    "removed": "removed",
    "broken": "no longer compiles",
    "repaired": "compiles now, did not before",
    "changed": "",
}
_SIDES = {
    "before": "compiles now, did not before",
    "after": "no longer compiles",
    "both": "compiles neither before nor after",
}


def render_comparison(comparison: Comparison, platforms: Sequence[str], style: Style, width: int | None) -> str:
    """The changes between two profiles; says so where there is none."""
    text = _changes(comparison, platforms, style, width, "")
    return text if comparison.differs else text + "No effective change.\n"


def render_git_diff(found: GitDiff, platforms: Sequence[str], style: Style, width: int | None) -> str:
    """Every profile that differs, the changes of each, and what compiles in neither state."""
    parts = [f"{summary(found)}\n"]
    for each in found.profiles:
        note = _note(each)
        details = _indented(each.reasons, "  ")
        if each.comparison is not None:
            details += _changes(each.comparison, platforms, style, width, "  ")
        gap = "\n" if details or each is found.profiles[0] else ""
        suffix = f"  ({one_line(note)})" if note else ""
        parts.append(f"{gap}{style('strong', one_line(each.path))}{suffix}\n{details}")
    if found.never_compiled:
        parts.append("\nNot compared, since neither state compiles:\n")
        parts += (f"  {one_line(each.path)}\n{_indented(each.reasons, '    ')}" for each in found.never_compiled)
    return "".join(parts)


def summary(found: GitDiff) -> str:
    """How many profiles differ, in one sentence."""
    return f"{differing(found)} from {one_line(f'{found.before} to {found.after}')}."


def differing(found: GitDiff) -> str:
    """``No profile differs``, ``1 profile differs``, ``2 profiles differ``."""
    count = len(found.profiles)
    return f"{count} profiles differ" if count > 1 else f"{count or 'No'} profile differs"


def _note(each: ProfileDiff) -> str:
    renamed = f"renamed from {each.renamed_from}" if each.renamed_from else ""
    inherited = f"only by inheritance, from {', '.join(each.inherited_from)}" if each.inherited_from else ""
    return "; ".join(part for part in (_STATUS[each.status], renamed, inherited) if part)


def _changes(comparison: Comparison, platforms: Sequence[str], style: Style, width: int | None, indent: str) -> str:
    rows = [_row(grouped, platforms) for grouped in comparison.changes]
    text = render_table(rows, style, width, headers=_HEADERS if rows else (), indent=indent)
    return text + "".join(f"{indent}{line}\n" for refused in comparison.refused for line in _refused(refused))


def _row(grouped: Grouped, platforms: Sequence[str]) -> Row:
    change = grouped.change
    stage = "" if change.stage_id is None else str(change.stage_id)
    names = "all" if len(grouped.platforms) == len(platforms) else ", ".join(grouped.platforms)
    before, after = _values(change)
    return [
        stage,
        Cell(change.key or "(whole stage)", "name"),
        before,
        Cell(after, "strong"),
        names,
        grouped.evidence or "",
    ]


def _values(change: Change) -> tuple[str, str]:
    if not change.key:
        return ("", "new") if change.kind == "added" else ("", "gone")
    before = "unset" if change.kind == "added" else inline(change.shown(change.before))
    after = "unset" if change.kind == "removed" else inline(change.shown(change.after))
    return before, after


def _refused(refused: Refused) -> Iterator[str]:
    yield f"{_SIDES[refused.side]} on {', '.join(refused.platforms)}:"
    yield from (f"  {_reason(diagnostic)}" for diagnostic in refused.diagnostics)


def _indented(reasons: Iterable[Diagnostic], indent: str) -> str:
    return "".join(f"{indent}{_reason(diagnostic)}\n" for diagnostic in reasons)


def _reason(diagnostic: Diagnostic) -> str:
    place = f"{Mark(diagnostic.path, diagnostic.line, diagnostic.column)}: " if diagnostic.path else ""
    return one_line(f"{place}{diagnostic.code} {diagnostic.message}")
