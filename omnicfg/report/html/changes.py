"""What changes effectively from a revision, as HTML: profile by profile, value by value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final
from xml.etree.ElementTree import Element

from omnicfg.diagnostics import Diagnostic
from omnicfg.differences.comparison import Comparison, Grouped, Refused
from omnicfg.differences.gitdiff import GitDiff, ProfileDiff, Uncompared
from omnicfg.overview.sheet import MAX_TEXT
from omnicfg.report.changes import summary
from omnicfg.report.html.elements import Child, element, prose
from omnicfg.report.terminal import one_line
from omnicfg.report.yaml import inline
from omnicfg.tree import Mark
from omnicfg.wording import counted

MAX_CHANGES: Final = 5000
_OPEN: Final = 10
_STATUS: Final = {
    "added": "new",
    "removed": "removed",
    "broken": "no longer compiles",
    "repaired": "compiles now, did not before",
    "changed": "changed",
}
_SIDES: Final = {
    "before": "Compiles now, did not before",
    "after": "No longer compiles",
    "both": "Compiles neither before nor after",
}
_HEADERS: Final = ("Stage", "Setting", "Before", "After", "Platforms", "What is known")


def changes_section(found: GitDiff, platforms: Sequence[str]) -> Element:
    """Every profile that differs: those that no longer compile first, then those that changed by inheritance alone."""
    rank = {"broken": 0, "removed": 2, "added": 3, "repaired": 3}
    profiles = sorted(found.profiles, key=lambda each: (rank.get(each.status, 1), not each.inherited_from))
    count = len(profiles)
    return element(
        "section",
        element("h2", "What changes", id="h-changes"),
        element("p", summary(found), class_=None if count else "empty"),
        list(_profiles(profiles, platforms)),
        list(_never(found.never_compiled)),
        element("p", "Nothing here fits the search.", class_="nothing", hidden=True),
        id="changes",
        aria_labelledby="h-changes",
    )


def _never(uncompared: Sequence[Uncompared]) -> Iterator[Element]:
    if uncompared:
        yield element("p", "Not compared, since neither state compiles:")
    for each in uncompared:
        yield element("p", element("code", one_line(each.path), class_="path"))
        yield element("ul", [_reason(reason) for reason in each.reasons], class_="reasons")


def _profiles(profiles: Sequence[ProfileDiff], platforms: Sequence[str]) -> Iterator[Element]:
    left = MAX_CHANGES
    for each in profiles:
        changes = each.comparison.changes if each.comparison else ()
        yield _profile(each, changes[:left], len(changes), platforms, is_open=len(profiles) <= _OPEN)
        left -= min(left, len(changes))


def _profile(
    each: ProfileDiff, shown: Sequence[Grouped], count: int, platforms: Sequence[str], *, is_open: bool
) -> Element:
    notes = [f"renamed from {each.renamed_from}"] if each.renamed_from else []
    notes += [f"only by inheritance, from {', '.join(each.inherited_from)}"] if each.inherited_from else []
    status = "broken" if each.status in ("broken", "removed") else "changed"
    return element(
        "details",
        element(
            "summary",
            element("code", one_line(each.path), class_="path"),
            " ",
            element("span", _STATUS[each.status], class_=f"badge {status}"),
            " ",
            element("span", counted(count, "setting"), class_="badge plain") if count else None,
            [" ", element("span", one_line("; ".join(notes)), class_="note-text")] if notes else None,
        ),
        element("ul", [_reason(reason) for reason in each.reasons], class_="reasons") if each.reasons else None,
        _table(each.path, shown, platforms) if shown else None,
        element("p", f"{count - len(shown)} more settings are not shown.", class_="more")
        if count > len(shown)
        else None,
        list(_refused(each.comparison)) if each.comparison else None,
        class_="file change",
        open=is_open,
    )


def _table(path: str, changes: Sequence[Grouped], platforms: Sequence[str]) -> Element:
    return element(
        "div",
        element(
            "table",
            element("caption", one_line(f"Settings of {path} that differ"), class_="sr"),
            element("thead", element("tr", [element("th", header, scope="col") for header in _HEADERS])),
            element("tbody", [_row(grouped, platforms) for grouped in changes]),
            class_="changes",
        ),
        class_="scroll",
        tabindex="0",
        role="region",
        aria_label=one_line(f"Changes of {path}"),
    )


def _row(grouped: Grouped, platforms: Sequence[str]) -> Element:
    change, known = grouped.change, grouped.known
    names = "all" if len(grouped.platforms) == len(platforms) else ", ".join(grouped.platforms)
    before = None if not change.key or change.kind == "added" else change.shown(change.before)
    after = None if not change.key or change.kind == "removed" else change.shown(change.after)
    words = {"added": ("not set", None), "removed": (None, "not set"), "changed": (None, None)}[change.kind]
    if not change.key:
        words = {"added": ("", "new"), "removed": ("", "gone"), "changed": ("", "")}[change.kind]
    evidence = [known.evidence or "", f" Cost: {known.cost}." if known.cost else ""]
    verdict = known.verdict if known.verdict in ("refused", "broken", "unvalidated", "validated") else None
    return element(
        "tr",
        element("td", "" if change.stage_id is None else str(change.stage_id), class_="stage"),
        element("th", element("code", one_line(change.key) or "(whole stage)"), scope="row"),
        element("td", _value("del", before, words[0], change.before_origin)),
        element("td", _value("ins", after, words[1], change.after_origin)),
        element("td", names),
        element("td", one_line("".join(evidence)), class_=f"known {verdict or ''}".rstrip()),
    )


def _value(tag: str, value: object, word: str | None, origin: str | None) -> list[Child]:
    """A value, or the word that stands for it, and who says so."""
    if word is not None:
        return [element("span", word, class_="unset")]
    text = one_line(inline(value))
    text = text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"
    where = element("span", one_line(origin), class_="origin") if origin else None
    return [element(tag, element("code", text)), where]


def _refused(comparison: Comparison) -> Iterator[Element]:
    for refused in comparison.refused:
        yield _side(refused)


def _side(refused: Refused) -> Element:
    return element(
        "div",
        element("p", f"{_SIDES[refused.side]} on {', '.join(refused.platforms)}:"),
        element("ul", [_reason(diagnostic) for diagnostic in refused.diagnostics], class_="reasons"),
    )


def _reason(diagnostic: Diagnostic) -> Element:
    place = f"{Mark(diagnostic.path, diagnostic.line, diagnostic.column)}: " if diagnostic.path else ""
    return element("li", element("code", one_line(place)), f"{diagnostic.code} ", prose(diagnostic.message))
