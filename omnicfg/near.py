"""Near names: what a misspelt key, platform or profile was probably meant to be."""

from __future__ import annotations

from collections.abc import Iterable


def near(word: str, candidates: Iterable[str]) -> str | None:
    """The candidate closest to ``word``, or ``None`` where none is close enough to be worth a suggestion."""
    import difflib

    pool = sorted({candidate for candidate in candidates if candidate != word})
    folded = {_fold(candidate): candidate for candidate in reversed(pool)}
    same = folded.get(_fold(word))
    if same is not None:
        return same
    close = difflib.get_close_matches(_fold(word), sorted(folded), n=1, cutoff=0.75)
    return folded[close[0]] if close else None


def did_you_mean(word: str, candidates: Iterable[str]) -> str | None:
    """``Did you mean `x`?`` or ``None``."""
    close = near(word, candidates)
    return f"Did you mean `{close}`?" if close else None


def _fold(word: str) -> str:
    return word.lower().replace("-", "_").replace("isation", "ization")
