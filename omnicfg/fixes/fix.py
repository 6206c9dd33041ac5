"""Mending findings: the edits that they bring, tried on texts in memory until nothing more can be mended.

What a fix does is never taken on trust. After each round the profiles are checked again as they would read then, and
what has not made its findings go away, or has made a profile unreadable, is taken back.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from omnicfg.buffers import Buffers, identity
from omnicfg.diagnostics import Diagnostic, Fix
from omnicfg.errors import UsageError
from omnicfg.files import write_whole
from omnicfg.fixes.edits import Text
from omnicfg.passes.read import load_text
from omnicfg.profile_files import profiles_in
from omnicfg.refusals import REFUSALS

Check = Callable[[], Sequence[Diagnostic]]
_Key = tuple[str, str, str]
_Span = tuple[int, int, str]

_UNREADABLE = frozenset(refusal.code for refusal in REFUSALS.values())


class Change(NamedTuple):
    """A file as it is, and as it would be; ``path`` is as it was named."""

    path: Path
    before: str
    after: str


@dataclass(frozen=True)
class Mended:
    """What fixes make of files: nothing is written yet.

    ``findings`` are gone with the changes; ``unsafe`` have only a fix that was not asked for; ``elsewhere`` counts, by
    file, those whose fix is in a file that was not named.
    """

    changes: tuple[Change, ...]
    findings: int
    unsafe: int
    elsewhere: dict[str, int]

    def write(self) -> None:
        """Write the files, each whole. Raises :class:`UsageError` before the first one where one has changed since."""
        for change in self.changes:
            if load_text(change.path, str(change.path)) != change.before:
                raise UsageError(f"`{change.path}` has changed while it was being fixed", "Run the command again.")
            if not os.access(change.path, os.W_OK):
                raise UsageError(f"`{change.path}` cannot be written: Permission denied", "Check its permissions.")
        for change in self.changes:
            write_whole(change.path, change.after)


def named_files(paths: Iterable[Path]) -> Iterator[Path]:
    """The files that fixes may change: those named, and the profiles of a directory that really lie in it."""
    for path in paths:
        if path.is_dir():
            inside = identity(path) + os.sep
            yield from (file for file in profiles_in([path]) if identity(file).startswith(inside))
        elif os.path.isfile(path):  # noqa: PTH113  # false, where Path raises; a shipped name is no file
            yield path


def mend(check: Check, files: Iterable[Path], *, unsafe: bool = False, texts: Buffers | None = None) -> Mended:
    """Apply the fixes of all findings of ``check`` in ``files``, again and again until none is left.

    ``check`` is called with the reader taking its files from memory. ``unsafe`` takes fixes that change what a
    profile means, too; ``texts`` are those that stand in for files from the start.
    """
    mender = Mender(check, files, unsafe, texts or Buffers())
    with mender.buffers:
        left = mender.run()
    changes = [Change(mender.named[name], before, mender.buffers.texts[name]) for name, before in mender.before.items()]
    return Mended(
        tuple(change for change in changes if change.before != change.after),
        mender.mended,
        sum(mender.is_named(each.fix) and not mender.is_wanted(each.fix) for each in left),
        dict(Counter(each.path for each in left if mender.is_wanted(each.fix) and not mender.is_named(each.fix))),
    )


class Mender:
    """The texts on their way to the fixpoint; ``refused`` are the fixes that did not do what they promised."""

    def __init__(self, check: Check, files: Iterable[Path], unsafe: bool, buffers: Buffers) -> None:
        self.check = check
        self.named = {identity(file): file for file in files}
        self.unsafe = unsafe
        self.buffers = buffers
        self.before: dict[str, str] = {}
        self.mended = 0
        self.refused: set[tuple[_Key, str]] = set()
        self.seen: set[int] = set()

    def run(self) -> Sequence[Diagnostic]:
        """The findings that are left."""
        found = self.check()
        while chosen := self._chosen(found):
            found = self._try(chosen, found)
        return found

    def is_wanted(self, fix: Fix | None) -> bool:
        return fix is not None and (fix.safe or self.unsafe)

    def is_named(self, fix: Fix | None) -> bool:
        return fix is not None and all(identity(edit.mark.file) in self.named for edit in fix.edits)

    def _chosen(self, found: Sequence[Diagnostic]) -> list[Diagnostic]:
        """The findings that can be mended together: their edits neither overlap nor touch."""
        taken: dict[str, set[_Span]] = {}
        chosen = []
        for finding in found:
            fix = finding.fix
            if fix is None or not self.is_wanted(fix) or not self.is_named(fix) or _refusal(finding) in self.refused:
                continue
            spans = self._spans([fix])
            if all(_is_free(name, span, taken) for name, each in spans.items() for span in each):
                chosen.append(finding)
                for name, each in spans.items():
                    taken.setdefault(name, set()).update(each)
        return chosen

    def _spans(self, fixes: Iterable[Fix]) -> dict[str, list[_Span]]:
        """The edits of fixes by file, as indices; equal ones once."""
        texts: dict[str, Text] = {}
        spans: dict[str, dict[_Span, None]] = {}
        for fix in fixes:
            for edit in fix.edits:
                name = identity(edit.mark.file)
                if name not in texts:
                    texts[name] = Text(self._text(name))
                spans.setdefault(name, {})[(*texts[name].span(edit.mark), edit.text)] = None
        return {name: list(each) for name, each in spans.items()}

    def _text(self, name: str) -> str:
        if name not in self.buffers.texts:
            self.buffers.texts[name] = load_text(self.named[name], str(self.named[name]))
        self.before.setdefault(name, self.buffers.texts[name])
        return self.buffers.texts[name]

    def _try(self, chosen: list[Diagnostic], found: Sequence[Diagnostic]) -> Sequence[Diagnostic]:
        """The findings with the fixes applied; where that is not better, with the first half of them, or none."""
        kept = dict(self.buffers.texts)
        self.seen.add(_state(kept))
        for name, spans in self._spans([finding.fix for finding in chosen if finding.fix]).items():
            self.buffers.texts[name] = _edited(self.buffers.texts[name], spans)
        if _state(self.buffers.texts) not in self.seen:
            after = self.check()
            if _is_better(chosen, found, after):
                self.mended += len(chosen)
                return after
        self.buffers.texts = kept
        if len(chosen) > 1:
            return self._try(chosen[: len(chosen) // 2], found)
        self.refused.add(_refusal(chosen[0]))
        return found


def _state(texts: dict[str, str]) -> int:
    """What tells apart the texts that there have been, so that fixes which undo each other come to an end."""
    return hash(tuple(sorted(texts.items())))


def _is_free(name: str, span: _Span, taken: dict[str, set[_Span]]) -> bool:
    start, end, _ = span
    return all(span == other or end < other[0] or other[1] < start for other in taken.get(name, ()))


def _edited(text: str, spans: Iterable[_Span]) -> str:
    for start, end, replacement in sorted(spans, reverse=True):
        text = text[:start] + replacement + text[end:]
    return text


def _key(finding: Diagnostic) -> _Key:
    """What a finding is told apart by while the lines above it come and go."""
    return finding.code, finding.path, finding.message


def _refusal(finding: Diagnostic) -> tuple[_Key, str]:
    return _key(finding), finding.fix.title if finding.fix else ""


def _is_better(chosen: Sequence[Diagnostic], before: Sequence[Diagnostic], after: Sequence[Diagnostic]) -> bool:
    """Whether every finding that was to go has gone, and every profile can be read that could be read before."""
    had, has, gone = (Counter(map(_key, findings)) for findings in (before, after, chosen))
    return _unreadable(after) <= _unreadable(before) and all(has[key] <= had[key] - gone[key] for key in gone)


def _unreadable(findings: Iterable[Diagnostic]) -> set[str]:
    return {finding.path for finding in findings if finding.code in _UNREADABLE}
