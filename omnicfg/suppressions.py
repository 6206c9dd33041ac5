"""Suppressions: comments that say which findings are not to be told, and why.

``# omnicfg: ignore[CODE, CODE] because REASON`` speaks of the line that it ends, or stands above;
``# omnicfg: ignore-file[CODE] because REASON`` of its whole file. The rules about them have ``check_suppression``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from omnicfg.buffers import identity
from omnicfg.diagnostics import Diagnostic
from omnicfg.edits import Text
from omnicfg.errors import OmnicfgError
from omnicfg.near import near
from omnicfg.passes.read import load_text, parsed
from omnicfg.tree import Mark

WORDS: Final = ("ignore", "ignore-file")
_SIGN: Final = "omnicfg:"
_START: Final = re.compile(r"(?<!\S)#[ \t]*omnicfg:")
_DIRECTIVE: Final = re.compile(r"#[ \t]*omnicfg:[ \t]*(?P<word>[\w-]*)(?P<rest>.*)")
_REST: Final = re.compile(r"[ \t]*\[(?P<codes>[^\]]*)\](?:[ \t]+because\b[ \t]*(?P<reason>.*))?")
_CODE: Final = re.compile(r"[^,\s]+")


class Code(NamedTuple):
    """A code as a suppression names it."""

    text: str
    mark: Mark


@dataclass(frozen=True)
class Suppression:
    """One such comment. ``line`` is the one that it speaks of; 0 for all of its file.

    ``whole`` covers what goes where the comment is removed, ``list`` what stands between its brackets.
    """

    mark: Mark
    word: str
    line: int
    codes: tuple[Code, ...]
    reason: str
    whole: Mark
    list: Mark

    @property
    def is_malformed(self) -> bool:
        """Whether it cannot be read as a suppression."""
        return self.word not in WORDS or not self.codes

    def covers(self, finding: Diagnostic) -> Code | None:
        """The code by which it suppresses a finding of its file."""
        if self.is_malformed or not self.reason or (self.line and self.line != finding.line):
            return None
        return next((code for code in self.codes if code.text == finding.code), None)


class Judged(NamedTuple):
    """What ``check_suppression`` looks at: a suppression, its codes that suppressed nothing, and all that there are."""

    suppression: Suppression
    unused: tuple[Code, ...]
    codes: frozenset[str]


def suppressions_in(text: str, file: str) -> list[Suppression]:
    """The suppressions of a YAML text that can be parsed. What is inside a scalar is no comment."""
    if _SIGN not in text:
        return []
    addressed = Text(text)
    candidates = [found.start() for found in _START.finditer(text)]
    scalars = _scalars(text, addressed) if candidates else []
    places = [start for start in candidates if not any(first <= start < last for first, last in scalars)]
    found = (_suppression(addressed, file, start) for start in places)
    return [suppression for suppression in found if suppression is not None]


def _scalars(text: str, addressed: Text) -> list[tuple[int, int]]:
    """The indices of all scalars; of one in block style those below its header, which may end in a comment."""
    from ruamel.yaml.error import YAMLError

    def spans(events: Iterator[tuple[str, Any]]) -> list[tuple[int, int]]:
        return [_span(event, addressed) for kind, event in events if kind == "ScalarEvent"]

    try:
        return parsed(text, spans)
    except (YAMLError, UnicodeEncodeError):
        return [(0, len(text))]


def _span(event: Any, addressed: Text) -> tuple[int, int]:
    start = addressed.offset(event.start_mark.line + 1, event.start_mark.column + 1)
    end = addressed.offset(event.end_mark.line + 1, event.end_mark.column + 1)
    return (addressed.next_line(start) if event.style in ("|", ">") else start), end


def _suppression(text: Text, file: str, start: int) -> Suppression | None:
    line_start, line_end = text.line_of(start)
    directive = _DIRECTIVE.match(text.text, start, line_end)
    assert directive is not None
    word, position = directive["word"], directive.start("rest")
    if word not in WORDS and near(word, WORDS) is None:
        return None  # a comment that only begins like one
    rest = _REST.match(text.text, position, line_end)
    first, last = rest.span("codes") if rest else (position, position)
    codes = tuple(Code(code[0], text.mark(file, *code.span())) for code in _CODE.finditer(text.text, first, last))
    before = text.text[line_start:start]
    alone = not before.strip() or before.lstrip().startswith("#")
    mark = text.mark(file, start, line_end)
    return Suppression(
        mark=mark,
        word=word,
        line=0 if word == "ignore-file" else _line_below(text, mark.line) if alone else mark.line,
        codes=codes,
        reason=(rest["reason"] or "").strip() if rest else "",
        whole=text.mark(file, *_whole(text, line_start, start, line_end)),
        list=text.mark(file, first, last),
    )


def _line_below(text: Text, line: int) -> int:
    """The number of the first line below that is no comment."""
    while True:
        line += 1
        start = text.offset(line, 1)
        if start >= len(text.text) or not text.text[slice(*text.line_of(start))].lstrip().startswith("#"):
            return line


def _whole(text: Text, line_start: int, start: int, line_end: int) -> tuple[int, int]:
    """A comment with the spaces before it; with its line, where it is alone there."""
    before = text.text[line_start:start].rstrip()
    return (line_start + len(before), line_end) if before else (line_start, text.next_line(start))


class Suppressions:
    """The suppressions of all files that were looked at, by the names that findings give these files."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self._paths = dict(files)
        self._files: dict[str, list[Suppression]] = {}
        self._used: set[Code] = set()
        known: dict[str, list[Suppression]] = {}
        for name, path in files.items():
            key = identity(path)
            if key not in known:
                known[key] = _read(path, name)
            self._files[name] = known[key]

    def told(self, findings: Iterable[Diagnostic]) -> list[Diagnostic]:
        """The findings that nothing suppresses."""
        return [finding for finding in findings if not self._suppresses(finding)]

    def _suppresses(self, finding: Diagnostic) -> bool:
        codes = [suppression.covers(finding) for suppression in self._files.get(finding.path, ())]
        used = {code for code in codes if code is not None}
        self._used |= used
        return bool(used)

    def problems(self, codes: frozenset[str], is_judged: Callable[[str, Path], bool]) -> Iterator[Diagnostic]:
        """What there is to say of the suppressions themselves.

        ``codes`` are all that there are; ``is_judged(code, file)`` tells where an unused suppression is one too many.
        """
        from omnicfg.rule import diagnostic, rule_modules, rule_of

        checks = [module for module in rule_modules() if hasattr(module, "check_suppression")]
        for suppression in {id(each): each for found in self._files.values() for each in found}.values():
            path = self._paths[suppression.mark.file]
            unused = (code for code in suppression.codes if code not in self._used and is_judged(code.text, path))
            judged = Judged(suppression, tuple(unused), codes)
            for module in checks:
                for finding in module.check_suppression(judged):
                    yield diagnostic(rule_of(module), finding)


def _read(path: Path, name: str) -> list[Suppression]:
    try:
        return suppressions_in(load_text(path, name), name)
    except OmnicfgError:
        return []  # what cannot be read is a finding already


def about_suppressions() -> frozenset[str]:
    """The codes of the rules about suppressions; no comment suppresses these."""
    from omnicfg.rule import rule_modules, rule_of

    return frozenset(rule_of(module).code for module in rule_modules() if hasattr(module, "check_suppression"))


def listed(words: Sequence[str]) -> str:
    """Words in a sentence: ``a``, ``a and b``, ``a, b and c``."""
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)
