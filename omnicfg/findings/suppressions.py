"""Suppressions: comments that say which findings are not to be told, and why.

``# omnicfg: ignore[CODE, CODE] because REASON`` speaks of the line that it ends, or stands above;
``# omnicfg: ignore-file[CODE] because REASON`` of its whole file. The rules about them have ``check_suppression``.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from omnicfg.buffers import identity
from omnicfg.diagnostics import Diagnostic
from omnicfg.errors import OmnicfgError
from omnicfg.fixes.edits import Text
from omnicfg.near import near
from omnicfg.passes.read import MAX_DEPTH, load_text, parsed
from omnicfg.tree import Mark

WORDS: Final = ("ignore", "ignore-file")
MAX_SUPPRESSIONS: Final = 1000  # of a file
_SIGN: Final = "omnicfg:"
_START: Final = re.compile(r"(?<![^\s\ufeff])#[ \t]*omnicfg:", re.IGNORECASE)
_DIRECTIVE: Final = re.compile(r"#[ \t]*omnicfg:[ \t]*(?P<word>[\w-]*)", re.IGNORECASE)
_OWN_CODE: Final = re.compile(r"\bOC[0-9]{3}\b", re.IGNORECASE)
_REST: Final = re.compile(r"[ \t]*\[(?P<codes>[^\]]{0,1000})\](?:[ \t]+because\b[ \t]*(?P<reason>.{0,200}))?")
_COMMENT: Final = re.compile(r"[ \t]*#")
_CODE: Final = re.compile(r"[^,\s]+")


class Code(NamedTuple):
    """A code as a suppression names it."""

    text: str
    mark: Mark


@dataclass(frozen=True)
class Suppression:
    """One such comment. ``line`` is the one that it speaks of; 0 for all of its file.

    ``problem`` says why it cannot be read as a suppression, if it cannot. ``whole`` covers what goes where the comment
    is removed, ``list`` what stands between its brackets.
    """

    mark: Mark
    word: str
    problem: str | None
    line: int
    codes: tuple[Code, ...]
    reason: str
    whole: Mark
    list: Mark

    def covers(self, finding: Diagnostic) -> Code | None:
        """The code by which it suppresses a finding of its file."""
        if self.problem or not self.reason or (self.line and self.line != finding.line):
            return None
        return next((code for code in self.codes if code.text == finding.code), None)


class Judged(NamedTuple):
    """What ``check_suppression`` looks at: a suppression, its codes that suppressed nothing, and all that there are."""

    suppression: Suppression
    unused: tuple[Code, ...]
    codes: frozenset[str]


def suppressions_in(text: str, file: str) -> list[Suppression]:
    """The suppressions of a YAML text that can be parsed. What is inside a scalar is no comment."""
    if _SIGN not in text.lower():
        return []
    candidates = [found.start() for found in islice(_START.finditer(text), MAX_SUPPRESSIONS + 1)]
    return list(_Scanner(text, file).suppressions(candidates)) if candidates else []


def _shallow(events: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """The events of a text that is nested no deeper than a profile may be; a parser takes long about others."""
    from ruamel.yaml.error import YAMLError

    depth = 0
    for kind, event in events:
        depth += kind in ("MappingStartEvent", "SequenceStartEvent")
        depth -= kind in ("MappingEndEvent", "SequenceEndEvent")
        if depth > MAX_DEPTH:
            raise YAMLError("nested too deep")
        yield kind, event


class _Scanner:
    """Reads the comments of one text."""

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self.addressed = Text(text)
        self.below: dict[int, int] = {}

    def suppressions(self, candidates: Sequence[int]) -> Iterator[Suppression]:
        """Those among comments that may be ones."""
        scalars = self._scalars()
        starts = [first for first, _ in scalars]
        places = [start for start in candidates if not _is_within(start, starts, scalars)]
        found = [each for each in map(self._suppression, reversed(places)) if each is not None][::-1]
        yield from found[:MAX_SUPPRESSIONS]
        for one_too_many in found[MAX_SUPPRESSIONS:]:
            yield replace(
                one_too_many, problem=f"a file has at most {MAX_SUPPRESSIONS}; this and those below are not read"
            )

    def _scalars(self) -> list[tuple[int, int]]:
        """The indices of all scalars; of one in block style those below its header, which may end in a comment."""
        from ruamel.yaml.error import YAMLError

        try:
            return parsed(
                self.text, lambda events: [self._span(each) for kind, each in _shallow(events) if kind == "ScalarEvent"]
            )
        except (YAMLError, UnicodeEncodeError):
            return [(0, len(self.text))]

    def _span(self, event: Any) -> tuple[int, int]:
        start = self.addressed.offset(event.start_mark.line + 1, event.start_mark.column + 1)
        end = self.addressed.offset(event.end_mark.line + 1, event.end_mark.column + 1)
        return (self.addressed.next_line(start) if event.style in ("|", ">") else start), end

    def _suppression(self, start: int) -> Suppression | None:
        line_start, line_end = self.addressed.line_of(start)
        directive = _DIRECTIVE.match(self.text, start, line_end)
        assert directive is not None
        word, position = directive["word"], directive.end()
        is_near = word in WORDS or near(word, WORDS) is not None
        if not is_near and _OWN_CODE.search(self.text, start, line_end) is None:
            return None  # a comment that only begins like one; other tools' words for it come with a code
        rest = _REST.match(self.text, position, line_end)
        first, last = rest.span("codes") if rest else (position, position)
        codes = tuple(Code(each[0], self._mark(*each.span())) for each in _CODE.finditer(self.text, first, last))
        alone = _COMMENT.match(self.text, line_start) is not None
        mark = self._mark(start, line_end)
        return Suppression(
            mark=mark,
            word=word,
            problem=_problem(word, codes),
            line=0 if word == "ignore-file" else self._line_below(mark.line) if alone else mark.line,
            codes=codes,
            reason=(rest["reason"] or "").strip() if rest else "",
            whole=self._mark(*self._whole(line_start, start, line_end)),
            list=self._mark(first, last),
        )

    def _mark(self, start: int, end: int) -> Mark:
        return self.addressed.mark(self.file, start, end)

    def _line_below(self, line: int) -> int:
        """The number of the first line below that is no comment. Comments are read from the last to the first."""
        below = line + 1
        while below not in self.below and self._is_comment(below):
            below += 1
        self.below[line + 1] = self.below.get(below, below)
        return self.below[line + 1]

    def _is_comment(self, line: int) -> bool:
        return _COMMENT.match(self.text, self.addressed.offset(line, 1)) is not None

    def _whole(self, line_start: int, start: int, line_end: int) -> tuple[int, int]:
        """A comment with the spaces before it; with its line, where it is alone there."""
        end = start
        while end > line_start and self.text[end - 1] in " \t":
            end -= 1
        return (end, line_end) if end > line_start else (line_start, self.addressed.next_line(start))


def _is_within(place: int, starts: Sequence[int], spans: Sequence[tuple[int, int]]) -> bool:
    """Whether a place lies in one of several spans that are in order and do not overlap."""
    number = bisect.bisect_right(starts, place)
    return number > 0 and place < spans[number - 1][1]


def _problem(word: str, codes: Sequence[Code]) -> str | None:
    if word not in WORDS:
        return f"there is no `omnicfg: {word}`"
    return None if codes else "it names no codes"


class Suppressions:
    """The suppressions of all files that were looked at, by the names that findings give these files."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self._paths = dict(files)
        self._all: list[Suppression] = []
        self._of_lines: dict[str, dict[int, list[Suppression]]] = {}
        self._used: set[Code] = set()
        known: dict[str, dict[int, list[Suppression]]] = {}
        for name, path in files.items():
            key = identity(path)
            if key not in known:
                found = _read(path, name)
                self._all += found
                known[key] = {line: list(each) for line, each in groupby(sorted(found, key=_line_of), _line_of)}
            self._of_lines[name] = known[key]

    def told(self, findings: Iterable[Diagnostic]) -> list[Diagnostic]:
        """The findings that nothing suppresses."""
        return [finding for finding in findings if not self._suppresses(finding)]

    def _suppresses(self, finding: Diagnostic) -> bool:
        lines = self._of_lines.get(finding.path, {})
        covering = (each.covers(finding) for line in {0, finding.line} for each in lines.get(line, ()))
        used = {code for code in covering if code is not None}
        self._used |= used
        return bool(used)

    def problems(self, codes: frozenset[str], is_judged: Callable[[str, Path], bool]) -> Iterator[Diagnostic]:
        """What there is to say of the suppressions themselves.

        ``codes`` are all that there are; ``is_judged(code, file)`` tells where an unused suppression is one too many.
        """
        from omnicfg.rule import diagnostic, rule_modules, rule_of

        checks = [module for module in rule_modules() if hasattr(module, "check_suppression")]
        for suppression in self._all:
            path = self._paths[suppression.mark.file]
            unused = (code for code in suppression.codes if code not in self._used and is_judged(code.text, path))
            judged = Judged(suppression, tuple(unused), codes)
            for module in checks:
                for finding in module.check_suppression(judged):
                    yield diagnostic(rule_of(module), finding)


def _line_of(suppression: Suppression) -> int:
    return suppression.line


def _read(path: Path, name: str) -> list[Suppression]:
    try:
        return suppressions_in(load_text(path, name), name)
    except OmnicfgError:
        return []  # what cannot be read is a finding already


def about_suppressions() -> frozenset[str]:
    """The codes of the rules about suppressions; no comment suppresses these."""
    from omnicfg.rule import rule_modules, rule_of

    return frozenset(rule_of(module).code for module in rule_modules() if hasattr(module, "check_suppression"))
