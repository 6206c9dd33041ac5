"""Near names: what a misspelt key, platform or profile was probably meant to be."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Final

_CLOSE: Final = 0.75


def near(word: str, candidates: Iterable[str]) -> str | None:
    """The candidate closest to ``word``, or ``None`` where none is close enough to be worth a suggestion."""
    pool = frozenset(candidates)
    return _near(word, pool - {word} if word in pool else pool)


@functools.lru_cache(maxsize=1024)
def _near(word: str, pool: frozenset[str]) -> str | None:
    import difflib

    folded = _folded(pool)
    wanted = _fold(word)
    if wanted in folded:
        return folded[wanted]
    # What is so much shorter or longer cannot be close enough; difflib finds that out too, but one by one.
    shortest, longest = len(wanted) * _CLOSE / (2 - _CLOSE), len(wanted) * (2 - _CLOSE) / _CLOSE
    possible = [name for name in folded if shortest <= len(name) <= longest]
    close = difflib.get_close_matches(wanted, possible, n=1, cutoff=_CLOSE)
    return folded[close[0]] if close else None


@functools.lru_cache(maxsize=64)
def _folded(pool: frozenset[str]) -> dict[str, str]:
    """The candidates by what counts of their letters, in alphabetical order; of equal ones the first."""
    folded = {_fold(candidate): candidate for candidate in sorted(pool, reverse=True)}
    return dict(sorted(folded.items()))


def slip_of(word: str, candidates: Iterable[str]) -> str | None:
    """The one candidate that ``word`` can be a slip of the pen for; ``None`` where there is none, or several.

    A slip is another case or dash, or one letter more, less, wrong or swapped; two of them in a word of eight or more.
    """
    pool = {candidate for candidate in candidates if candidate != word}
    if not pool:
        return None
    import difflib

    same = [candidate for candidate in pool if _fold(candidate) == _fold(word)]
    if same:
        return same[0] if len(same) == 1 else None
    slips = 1 if len(word) < 8 else 2
    close = difflib.get_close_matches(_fold(word), {_fold(candidate) for candidate in pool}, n=16, cutoff=0.7)
    meant = [name for name in close if min(len(word), len(name)) > 3 and _distance(_fold(word), name) <= slips]
    return next(candidate for candidate in pool if _fold(candidate) == meant[0]) if len(meant) == 1 else None


def _distance(one: str, other: str) -> int:
    """How many letters have to be put in, left out, changed or swapped with their neighbour (optimal alignment)."""
    before: list[int] = []
    last = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        row = [i]
        for j, wanted in enumerate(other, 1):
            best = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (letter != wanted))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == wanted:
                best = min(best, before[j - 2] + 1)
            row.append(best)
        before, last = last, row
    return last[-1]


def did_you_mean(word: str, candidates: Iterable[str]) -> str | None:
    """``Did you mean `x`?`` or ``None``."""
    close = near(word, candidates)
    return f"Did you mean `{close}`?" if close else None


def _fold(word: str) -> str:
    return word.lower().replace("-", "_").replace("isation", "ization")
