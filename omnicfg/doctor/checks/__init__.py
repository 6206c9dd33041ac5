"""What is told of a machine, one subject a module, in the order that they ask for.

A module has ``TITLE``, ``ORDER`` and ``check(facts)``, which yields what there is to tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple, Protocol, cast

from omnicfg.doctor.facts import Facts
from omnicfg.registry import modules_of


class Status(StrEnum):
    """``OK`` as it should be; ``NOTE`` good to know, or wanting for some uses; ``PROBLEM`` stands in the way."""

    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


class Check(NamedTuple):
    """What was found, and for what is not as it should be what to do about it."""

    status: Status
    what: str
    help: str | None = None


class Subject(Protocol):
    """What a module offers."""

    TITLE: str
    ORDER: int

    def check(self, facts: Facts) -> Iterator[Check]:
        """What there is to tell."""


def sections(facts: Facts) -> list[tuple[str, list[Check]]]:
    """Title and checks of every subject that has something to tell."""
    subjects = sorted(cast(Iterable[Subject], modules_of(__name__).values()), key=lambda subject: subject.ORDER)
    found = [(subject.TITLE, list(subject.check(facts))) for subject in subjects]
    return [(title, checks) for title, checks in found if checks]
