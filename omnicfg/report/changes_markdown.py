"""What differs, as a comment on a pull request: GitHub's Markdown, within the length that a comment may have.

Values come from files that anybody may have written, so they stand in code spans: nothing in them is a link, a mention
or HTML.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from omnicfg.diagnostics import Diagnostic
from omnicfg.differences.comparison import Comparison, Grouped, Refused
from omnicfg.differences.gitdiff import GitDiff, ProfileDiff
from omnicfg.report.changes import differing
from omnicfg.report.table import code_span
from omnicfg.report.terminal import printable
from omnicfg.report.yaml import inline
from omnicfg.tree import Mark
from omnicfg.wording import counted

MAX_COMMENT: Final = 65_536  # characters of a comment on GitHub
MARKER: Final = "<!-- omnicfg diff -->"  # by which a workflow finds its earlier comment
_ROOM: Final = 60_000
_OPEN_ROWS: Final = 30  # rows that are shown without being unfolded
_LONGEST_VALUE: Final = 80
_LONGEST_TEXT: Final = 600
_STATES: Final = {"added": "new", "removed": "removed", "repaired": "compiles now, did not before"}
_SIDES: Final = {"before": "compiles now, did not before,", "after": "no longer compiles", "both": "does not compile"}


class _Row(NamedTuple):
    """One change of one profile."""

    path: str
    grouped: Grouped
    platforms: str
    inherited_from: tuple[str, ...]

    @property
    def stage(self) -> str:
        return "" if self.grouped.change.stage_id is None else str(self.grouped.change.stage_id)


def comparison_markdown(comparison: Comparison, platforms: Sequence[str]) -> str:
    """The changes between two profiles."""
    if not comparison.differs:
        return "No effective change.\n"
    rows = [_Row("", grouped, _names(grouped.platforms, platforms), ()) for grouped in comparison.changes]
    parts = [_table(rows, with_path=False)] if rows else []
    parts += ["\n", *(f"- {line}\n" for line in _refused("", comparison.refused))] if comparison.refused else []
    return _within("".join(parts), _evidence(rows))


def git_diff_markdown(found: GitDiff, platforms: Sequence[str]) -> str:
    """Everything that differs between two states: what breaks, then what flips by inheritance, then the rest."""
    rows = list(_rows(found.profiles, platforms))
    inherited, own = [row for row in rows if row.inherited_from], [row for row in rows if not row.inherited_from]
    headline = f"{MARKER}\n{_headline(found, rows, platforms)}\n"
    parts = [headline]
    states = list(_states(found))
    parts += ["\n", *(f"- {line}\n" for line in states)] if states else []
    if inherited:
        parts.append("\n#### By inheritance alone: the file is untouched, a base of it changed\n\n")
        parts += _tables(inherited)
    if own:
        parts.append("\n#### In changed files\n\n")
        parts += _tables(own)
    if found.never_compiled:
        parts.append("\nNot compared, since neither state compiles:\n\n")
        parts += (f"- {code(each.path)}: {'; '.join(map(_reason, each.reasons))}\n" for each in found.never_compiled)
    whole = _within("".join(parts), _evidence(rows))
    return whole if len(whole) <= _ROOM else _short(headline, rows, states)


def _rows(profiles: Iterable[ProfileDiff], platforms: Sequence[str]) -> Iterator[_Row]:
    for each in profiles:
        for grouped in each.comparison.changes if each.comparison else ():
            yield _Row(each.path, grouped, _names(grouped.platforms, platforms), each.inherited_from)


def _names(given: Sequence[str], platforms: Sequence[str]) -> str:
    return "all" if len(given) == len(platforms) else ", ".join(given)


def _headline(found: GitDiff, rows: Sequence[_Row], platforms: Sequence[str]) -> str:
    parts = [f"**{differing(found)} from {code(found.before)} to {code(found.after)}**"]
    inherited = sum(bool(each.inherited_from) for each in found.profiles)
    broken = sum(each.status == "broken" for each in found.profiles)
    parts += [f"{inherited} by inheritance alone"] if inherited else []
    parts += [f"{broken} no longer compile{'s' if broken == 1 else ''}"] if broken else []
    for verdict in ("refused", "broken", "unvalidated"):
        count = sum(row.grouped.known.verdict == verdict for row in rows)
        parts += [f"{counted(count, 'new value')} {verdict}"] if count else []
    return f"{'; '.join(parts)} (looked at on {', '.join(platforms)})."


def _states(found: GitDiff) -> Iterator[str]:
    """What is new, gone or broken, the worst first."""
    for each in sorted(found.profiles, key=lambda each: each.status != "broken"):
        if each.status == "broken":
            base = f", since {', '.join(map(code, each.inherited_from))} changed" if each.inherited_from else ""
            yield f"{code(each.path)} no longer compiles{base}: {'; '.join(map(_reason, each.reasons))}"
        elif each.status in _STATES:
            yield f"{code(each.path)}: {_STATES[each.status]}"
        if each.renamed_from:
            yield f"{code(each.path)} was {code(each.renamed_from)}"
        if each.comparison:
            yield from _refused(f"{code(each.path)} ", each.comparison.refused)


def _refused(lead: str, refusals: Iterable[Refused]) -> Iterator[str]:
    for each in refusals:
        reasons = "; ".join(map(_reason, each.diagnostics))
        yield f"{lead}{_SIDES[each.side]} on {', '.join(each.platforms)}: {reasons}"


def _reason(diagnostic: Diagnostic) -> str:
    place = f" at {code(str(Mark(diagnostic.path, diagnostic.line, diagnostic.column)))}" if diagnostic.path else ""
    return f"{diagnostic.code} {words(diagnostic.message)}{place}"


def _tables(rows: Sequence[_Row]) -> Iterator[str]:
    """A table; what is beyond its first rows is folded away."""
    yield _table(rows[:_OPEN_ROWS])
    if rest := rows[_OPEN_ROWS:]:
        yield f"\n<details><summary>{len(rest)} more</summary>\n\n{_table(rest)}\n</details>\n"


def _table(rows: Sequence[_Row], *, with_path: bool = True) -> str:
    headers = ["profile", "platforms", "stage", "key", "before", "after", "verdict", "cost"]
    body = [headers, ["---"] * len(headers), *map(_cells, rows)]
    used = [bool(with_path), *(True for _ in range(5)), *(any(row[at] for row in body[2:]) for at in (6, 7))]
    return "".join(
        f"| {' | '.join(cell for cell, wanted in zip(row, used, strict=True) if wanted)} |\n" for row in body
    )


def _cells(row: _Row) -> list[str]:
    change, known = row.grouped.change, row.grouped.known
    path = code(row.path)
    if row.inherited_from:
        path += f" from {', '.join(map(code, row.inherited_from))}"
    before = "unset" if change.kind == "added" else code(inline(change.shown(change.before)))
    after = "unset" if change.kind == "removed" else code(inline(change.shown(change.after)))
    if not change.key:
        before, after = ("", "new") if change.kind == "added" else ("", "gone")
    verdict = f"**{known.verdict}**" if known.verdict in ("refused", "broken") else known.verdict or ""
    key = code(change.key) if change.key else "whole stage"
    return [
        path,
        row.platforms,
        row.stage or "profile",
        key,
        before,
        after,
        verdict,
        words(known.cost or "", _LONGEST_VALUE * 2),
    ]


def _evidence(rows: Iterable[_Row]) -> str:
    """What stands behind the verdicts, each once, folded away."""
    told: dict[tuple[str | None, ...], None] = {}
    for row in rows:
        known = row.grouped.known
        if known.evidence:
            told[known.evidence, known.source, known.cost] = None
    if not told:
        return ""
    lines = []
    for evidence, source, cost in told:
        costs = f" Cost: {words(cost)}." if cost else ""
        lines.append(f"- {words(evidence or '')}{costs} ({words(source or '')})\n")
    return f"\n<details><summary>Evidence</summary>\n\n{''.join(lines)}\n</details>\n"


def _within(text: str, evidence: str) -> str:
    """Both, or the text alone where they are too long together."""
    return text + evidence if len(text) + len(evidence) <= _ROOM else text


def _short(headline: str, rows: Sequence[_Row], states: Sequence[str]) -> str:
    """For a difference too large for a comment: one line a profile, those by inheritance first, as many as fit."""
    text = f"{headline}\nThis is too much for a comment; `omnicfg diff --git` has all of it.\n\n"
    lines = [*(f"- {line}" for line in states), *_briefly([row for row in rows if row.inherited_from])]
    lines += _briefly([row for row in rows if not row.inherited_from])
    for position, line in enumerate(lines):
        if len(text) + len(line) > _ROOM - 100:
            return f"{text}\n{len(lines) - position} more lines are left out.\n"
        text += f"{line}\n"
    return text


def _briefly(rows: Sequence[_Row]) -> Iterator[str]:
    for path in dict.fromkeys(row.path for row in rows):
        own = [row for row in rows if row.path == path]
        base = f" (from {', '.join(map(code, own[0].inherited_from))})" if own[0].inherited_from else ""
        stages = ", ".join(sorted({row.stage or "profile" for row in own}))
        platforms = ", ".join(dict.fromkeys(row.platforms for row in own))
        verdicts = sorted({row.grouped.known.verdict for row in own if row.grouped.known.verdict})
        told = f"; {', '.join(verdicts)}" if verdicts else ""
        yield f"- {code(path)}{base}: {len(own)} values of stage {stages} on {platforms}{told}"


def code(text: str) -> str:
    """A text as code, on one line of a table."""
    shown = re.sub(r"\s+", " ", printable(_ends(text)))
    if len(shown) > _LONGEST_VALUE:
        shown = f"{shown[: _LONGEST_VALUE // 2]} … {shown[-_LONGEST_VALUE // 2 :]}"
    return code_span(shown).replace("|", "\\|")


def words(text: str, longest: int = _LONGEST_TEXT) -> str:
    """Words as words: nothing in them is markup but what stands in backticks."""
    shown = re.sub(r"\s+", " ", printable(_ends(text)))
    shown = shown if len(shown) <= longest else f"{shown[: longest - 2]} …"
    pieces = re.split(r"(`[^`]+`)", shown)
    pieces[::2] = [re.sub(r"([\\`|<>*_\[\]@#])", r"\\\1", each) for each in pieces[::2]]
    pieces[1::2] = [each.replace("|", "\\|") for each in pieces[1::2]]
    return "".join(pieces)


def _ends(text: str) -> str:
    """The text without the middle that nobody will see, so that a huge one costs nothing."""
    return text if len(text) <= 4 * _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]} … {text[-_LONGEST_TEXT:]}"
