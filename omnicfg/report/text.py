"""Diagnostics for people, each pointing into the source the way rustc and ruff do."""

from __future__ import annotations

import bisect
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from omnicfg.diagnostics import Diagnostic, summarize
from omnicfg.errors import OmnicfgError
from omnicfg.report.source import Line, Sources
from omnicfg.report.terminal import TAB, Style, cells, has_colour, one_line, printable, width_of, wrap
from omnicfg.secrets import without_passwords
from omnicfg.wording import counted

if TYPE_CHECKING:
    from omnicfg.findings.review import Report

_USAGE: Final = "OC000"
_SERVER: Final = "serve"
_LONGEST: Final = 160
_CUT: Final = "…"


def render_diagnostics(diagnostics: Iterable[Diagnostic], *, colour: bool = False, width: int | None = None) -> str:
    """Each diagnostic with its excerpt, a blank line after each; the empty text where there is none.

    ``width`` wraps for a terminal of so many columns; without it no line of text is broken.
    """
    renderer = _Renderer(Style(colour), width)
    return "".join("\n".join(renderer.block(diagnostic)) + "\n\n" for diagnostic in diagnostics)


def render_summary(report: Report) -> str:
    """The last line of a report: ``2 errors in 1 profile; 1 can be fixed with `--fix`.`` or ``No findings in ...``"""
    count = len(report.profiles)
    if not count:
        return "No profiles found: no YAML file there looks like one.\n"
    counts = summarize(report.findings)
    found = [counted(number, name) for name, number in counts.items() if number]
    left_out = [f"{report.suppressed} suppressed"] if report.suppressed else []
    left_out += [f"{report.baselined} in the baseline"] if report.baselined else []
    left_out += [f"{report.fixable} can be fixed with `--fix`"] if report.fixable else []
    return "; ".join([f"{', '.join(found) or 'No findings'} in {counted(count, 'profile')}", *left_out]) + ".\n"


def render_errors(error: OmnicfgError) -> str:
    """What stopped a command, for standard error."""
    return render_diagnostics(error.diagnostics, colour=has_colour(sys.stderr), width=width_of(sys.stderr))[:-1]


class _Excerpt(NamedTuple):
    """A line as it is shown, and the columns of it that are marked (from 0, the end exclusive)."""

    text: str
    start: int
    end: int


class _Renderer:
    def __init__(self, style: Style, width: int | None) -> None:
        self.style = style
        self.sources = Sources()
        self.width = width

    def block(self, diagnostic: Diagnostic) -> Iterator[str]:
        """The lines of one diagnostic."""
        yield from self._headline(diagnostic)
        digits = len(str(diagnostic.line)) if diagnostic.line else 0
        bar = " " * (digits + 2) + self.style("place", "|")
        if diagnostic.path:
            yield f"{' ' * (digits + 1)}{self.style('place', '-->')} {_place(diagnostic)}"
        excerpt = self._excerpt(diagnostic, digits)
        if excerpt is not None:
            number = self.style("place", f" {diagnostic.line} |")
            yield bar
            yield f"{number} {excerpt.text}".rstrip()
            carets = self.style(diagnostic.severity.value, "^" * (excerpt.end - excerpt.start))
            yield f"{bar} {' ' * excerpt.start}{carets}"
        if diagnostic.platform:
            yield from self._detail(digits, "platform", diagnostic.platform.replace(",", ", "))
        if diagnostic.help:
            yield from self._detail(digits, "help", _words(diagnostic, diagnostic.help))

    def _headline(self, diagnostic: Diagnostic) -> Iterator[str]:
        severity = diagnostic.severity.value
        label = severity if diagnostic.code == _USAGE else f"{severity}[{diagnostic.code}] {diagnostic.name}"
        lines = wrap(f"{label}: {_words(diagnostic, diagnostic.message)}", self.width)
        if len(lines[0]) >= len(label):
            lines[0] = self.style(severity, label) + self.style("strong", lines[0][len(label) :])
        yield lines[0]
        yield from (self.style("strong", line) for line in lines[1:])

    def _detail(self, digits: int, name: str, text: str) -> Iterator[str]:
        lead = f"{' ' * (digits + 2)}= {name}: "
        first, *rest = wrap(text, None if self.width is None else max(self.width - len(lead), 20))
        yield f"{' ' * (digits + 2)}{self.style('place', '=')} {self.style('strong', name + ':')} {first}"
        yield from (" " * len(lead) + line for line in rest)

    def _excerpt(self, diagnostic: Diagnostic, digits: int) -> _Excerpt | None:
        if not diagnostic.line or not diagnostic.column:
            return None
        line = self.sources.line(diagnostic.path, diagnostic.line)
        if line is None:
            return None
        limit = (_LONGEST if self.width is None else self.width) - digits - 4
        return _excerpt(line, diagnostic.column - 1, _end(diagnostic), limit)


def _end(diagnostic: Diagnostic) -> int:
    """The column (from 0) before which the marked part of the diagnostic's line ends."""
    if diagnostic.end_line > diagnostic.line:
        return sys.maxsize
    return max(diagnostic.end_column - 1, diagnostic.column)


def _excerpt(line: Line, start: int, end: int, limit: int) -> _Excerpt:
    """The line with its tabs as spaces, and the marked columns where the characters stand on a screen."""
    shown = ""
    column, first, last = 0, None, 0
    # What is far from the mark is cut off at once: a line may be long, and have thousands of findings.
    middle = bisect.bisect_right(line.pieces, start, key=lambda piece: piece[1])
    before, after = max(0, middle - limit), middle + limit
    is_cut = before > 0, after < len(line.pieces)
    for piece_start, piece_end, text in line.pieces[before:after]:
        visible = " " * TAB if text == "\t" else printable(text)
        if first is None and piece_end > start:
            first = column
        shown += visible
        column += cells(visible)
        if piece_start < end and visible.strip():
            last = column
    shown = shown.rstrip()
    first = cells(shown) if first is None else first
    last = max(last, first + 1)
    if cells(shown) <= limit and not any(is_cut):
        return _Excerpt(shown, first, last)
    return _window(shown, first, last, limit, is_cut)


def _window(text: str, first: int, last: int, limit: int, is_cut: tuple[bool, bool]) -> _Excerpt:
    """The part of a long line around its marked columns; ``is_cut`` says whether there is more before and after."""
    begin = max(0, first - limit // 3)
    kept, column = "", 0
    for character in text:
        size = cells(character)
        if column >= begin and column - begin + size <= limit - 2:
            kept += character
        column += size
    lead = _CUT if begin or is_cut[0] else ""
    tail = _CUT if cells(text) - begin > limit - 2 or is_cut[1] else ""
    start = first - begin + len(lead)
    return _Excerpt(f"{lead}{kept}{tail}", start, max(start + 1, min(last - begin + len(lead), limit - 1)))


def _place(diagnostic: Diagnostic) -> str:
    place = one_line(diagnostic.path)
    if diagnostic.line:
        place += f":{diagnostic.line}" + (f":{diagnostic.column}" if diagnostic.column else "")
    return place


def _words(diagnostic: Diagnostic, text: str) -> str:
    """What a diagnostic says. Only one about a server has lines of its own making: those that it wrote last."""
    return printable(without_passwords(text)) if diagnostic.name == _SERVER else one_line(text)
