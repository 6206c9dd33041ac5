"""``omnicfg matrix``: the scope of the prefix cache over the shipped library."""

from __future__ import annotations

import sys
from typing import Annotated

from omnicfg.catalog.library import library
from omnicfg.commands._options import PLATFORM, profile_names
from omnicfg.commands._plans import platforms_of
from omnicfg.matrix import Cell, Refused, matrix
from omnicfg.parser import Argument, Option
from omnicfg.report.progress import working

HELP = "Show where the prefix cache is on, by model, profile, platform and stage, with the evidence."

PROFILES = Annotated[
    list[str], Argument("PROFILE", help="Only these; every shipped profile where none is named.", words=profile_names)
]
FORMAT = Annotated[str, Option("--format", choices=("text", "json", "markdown"), help="How to print it.")]

_HEADERS = ("model", "profile", "stage", "platforms", "cache", "set by", "verdict", "evidence")


def run(
    profiles: PROFILES = [],  # noqa: B006  # never changed
    platform: PLATFORM = "all",
    format: FORMAT = "text",
) -> None:
    """One row for each stage, and for each group of platforms on which it is the same."""
    platforms = platforms_of(platform)
    names = profiles or list(library())
    with working("compiling profiles") as work:
        cells, refused = matrix(platforms, work.each(names))
    if format == "json":
        from omnicfg.report.json import dumps

        data = {"cells": [cell.to_dict() for cell in cells], "refused": [one.to_dict() for one in refused]}
        sys.stdout.write(dumps(data))
        return
    rows = [_row(cell, len(platforms)) for cell in cells]
    notes = [_note(one) for one in refused]
    if format == "markdown":
        from omnicfg.report.table import render_markdown

        sys.stdout.write(
            render_markdown(rows, _HEADERS) + "".join(f"\n- {note}" for note in notes) + "\n" * bool(notes)
        )
        return
    from omnicfg.report.table import Cell as Shown
    from omnicfg.report.table import render_table
    from omnicfg.report.terminal import Style, has_colour, width_of

    looks = {"on": "good", "off": "bad", "-": "faint"}
    styled = [
        [Shown(text, looks.get(text, "") if column == 4 else "") for column, text in enumerate(row)] for row in rows
    ]
    table = render_table(styled, Style(has_colour(sys.stdout)), width_of(sys.stdout), headers=_HEADERS)
    sys.stdout.write(table + "".join(f"{note}\n" for note in notes))


def _row(cell: Cell, platforms: int) -> list[str]:
    return [
        cell.model,
        cell.profile,
        f"{cell.stage_id} {cell.model_stage}",
        "all" if len(cell.platforms) == platforms > 1 else ", ".join(cell.platforms),
        cell.value,
        cell.by,
        cell.verdict or "not recorded",
        cell.evidence or "",
    ]


def _note(refused: Refused) -> str:
    from omnicfg.report.terminal import one_line

    return one_line(f"{refused.profile} does not compile on {', '.join(refused.platforms)}: {refused.reason}")
