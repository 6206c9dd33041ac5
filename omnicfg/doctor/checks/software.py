"""What is installed, and the extras of omnicfg that are not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from omnicfg.doctor.checks import Check, Status
from omnicfg.doctor.facts import Facts

TITLE: Final = "software"
ORDER: Final = 3


def check(facts: Facts) -> Iterator[Check]:
    """Versions; whether an engine can be started with them is told for each engine."""
    if facts.omnicfg is None:
        what = "omnicfg is not installed in this environment, only importable: vLLM finds no plugin of it"
        yield Check(Status.NOTE, what, "`pip install omnicfg`, or `pip install -e .` in a checkout.")
    else:
        yield Check(Status.OK, f"omnicfg {facts.omnicfg}")
    for name, version in facts.packages.items():
        yield Check(Status.OK, f"{name} {version}")
    for extra, missing in facts.extras.items():
        if missing:
            yield Check(
                Status.NOTE, f"extra {extra}: without {', '.join(missing)}", f"`pip install 'omnicfg[{extra}]'`"
            )
        else:
            yield Check(Status.OK, f"extra {extra}")
