"""How many answers of two sides agree, and where the others differ: what a file of ``releases/`` counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

_LISTED = 20


class Tally:
    """Counts answers by the differences that each was found to have."""

    def __init__(self) -> None:
        self._differing: Counter[str] = Counter()
        self._asked = self._agreeing = 0

    def add(self, differences: Iterable[str]) -> None:
        """One answer."""
        found = list(differences)
        self._asked += 1
        self._agreeing += not found
        self._differing.update(found)

    def counts(self) -> dict[str, Any]:
        """How many agree."""
        return {"answers": self._asked, "agreeing": self._agreeing}

    def differing(self) -> dict[str, Any]:
        """The most frequent differences, and how many more there are."""
        return {
            "differing": dict(self._differing.most_common(_LISTED)),
            "differing_more": max(len(self._differing) - _LISTED, 0),
        }
