"""The findings of a report as HTML: by file, each with the line that it is about."""

from __future__ import annotations

import bisect
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final
from xml.etree.ElementTree import Element

from omnicfg.diagnostics import Diagnostic, summarize
from omnicfg.report.html.elements import Child, element, prose
from omnicfg.report.source import Line, Sources
from omnicfg.report.terminal import one_line
from omnicfg.wording import counted, plural

MAX_FINDINGS: Final = 2000
_OPEN: Final = 12
_LONGEST: Final = 160
_CUT: Final = "…"


def findings_section(findings: Sequence[Diagnostic]) -> Element:
    """Every finding, worst files first; a report with very many of them names the rest by number."""
    if not findings:
        return element(
            "section",
            _heading(),
            element("p", "No findings.", class_="empty"),
            id="findings",
            aria_labelledby="h-findings",
        )
    sources = Sources()
    numbered = list(enumerate(findings))[:MAX_FINDINGS]
    files = [(path, list(group)) for path, group in groupby(numbered, key=lambda each: each[1].path)]
    files.sort(key=lambda each: min(finding.severity.rank for _, finding in each[1]))
    return element(
        "section",
        _heading(),
        _severities(findings),
        [_file(path, group, sources, is_open=len(findings) <= _OPEN) for path, group in files],
        _more(len(findings) - len(numbered)),
        element("p", "Nothing here fits the search.", class_="nothing", hidden=True),
        id="findings",
        aria_labelledby="h-findings",
    )


def _heading() -> Element:
    return element("h2", "Findings", id="h-findings")


def _more(left: int) -> Element | None:
    told = prose(f"{left} more are not shown; `omnicfg validate` tells them all.")
    return element("p", told, class_="more") if left else None


def _severities(findings: Sequence[Diagnostic]) -> Element:
    chips = [
        element(
            "button",
            element("span", str(count), class_="count"),
            f" {plural(count, severity)}",
            type="button",
            class_=f"chip {severity}",
            data_severity=severity,
            aria_pressed="true",
        )
        for severity, count in summarize(findings).items()
        if count
    ]
    return element("div", chips, class_="chips", role="group", aria_label="Show findings of these severities")


def _file(path: str, group: Sequence[tuple[int, Diagnostic]], sources: Sources, *, is_open: bool) -> Element:
    counts = summarize(finding for _, finding in group)
    badges = [badge(severity, count) for severity, count in counts.items() if count]
    return element(
        "details",
        element("summary", element("code", one_line(path) or "(no file)", class_="path"), " ", badges),
        element("ul", [_finding(number, finding, sources) for number, finding in group], class_="findings"),
        class_="file",
        open=is_open or bool(counts["error"]),
    )


def badge(severity: str, count: int) -> Element:
    """How many findings of a severity there are, in words for whoever does not see colours."""
    return element("span", counted(count, severity), class_=f"badge {severity}")


def _finding(number: int, finding: Diagnostic, sources: Sources) -> Element:
    place = f"{finding.line}:{finding.column}" if finding.column else str(finding.line or "")
    severity = finding.severity.value
    return element(
        "li",
        element(
            "p",
            element("span", severity, class_=f"badge {severity}"),
            " ",
            element("a", finding.code, href=finding.url, class_="code", rel="noreferrer"),
            " ",
            element("span", prose(finding.message), class_="message"),
            class_="headline",
        ),
        _excerpt(finding, sources),
        element("dl", list(_details(finding, place)), class_="details"),
        id=f"f{number}",
        class_=f"finding {severity}",
        data_severity=severity,
        tabindex="-1",
    )


def _details(finding: Diagnostic, place: str) -> Iterator[Child]:
    if place:
        yield _detail("line", element("code", place))
    if finding.platform:
        yield _detail("on", finding.platform.replace(",", ", "))
    if finding.help:
        yield _detail("help", prose(finding.help))
    if finding.fix is not None:
        told = "" if finding.fix.safe else " (changes what runs: --unsafe-fixes)"
        yield _detail("fix", [prose(finding.fix.title), told])


def _detail(name: str, value: Child) -> Iterable[Child]:
    return element("div", element("dt", name), element("dd", value))


def _excerpt(finding: Diagnostic, sources: Sources) -> Element | None:
    """The line that a finding is about, with the part that it marks."""
    line = sources.line(finding.path, finding.line) if finding.line and finding.column else None
    if line is None:
        return None
    before, marked, after = _parts(line, finding)
    return element("pre", element("code", before, element("mark", marked) if marked else None, after), class_="excerpt")


def _parts(line: Line, finding: Diagnostic) -> tuple[str, str, str]:
    """The line before, at and after the columns that a finding marks; what is far from them is cut off at once."""
    pieces, start = line.pieces, finding.column - 1
    end = max(finding.end_column - 1, finding.column) if finding.end_line <= finding.line else sys.maxsize
    first = bisect.bisect_right(pieces, start, key=lambda piece: piece[1])
    last = bisect.bisect_left(pieces, end, key=lambda piece: piece[0])
    begin = max(0, first - _LONGEST)
    before = "".join(text for _, _, text in pieces[begin:first])
    return (_CUT if begin else "") + before, _beginning(pieces[first:last]), _beginning(pieces[last:])


def _beginning(pieces: Sequence[tuple[int, int, str]]) -> str:
    shown = "".join(text for _, _, text in pieces[:_LONGEST])
    return shown + _CUT if len(pieces) > _LONGEST else shown
