"""The matrix as data for the page's script: every text, cell and row once, profiles by their numbers.

Profiles of one pipeline have most of their rows in common, so all of vLLM-Omni's take less than a megabyte.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Final

from omnicfg.diagnostics import Diagnostic
from omnicfg.differences.comparison import Grouped
from omnicfg.overview import Overview, ProfileView
from omnicfg.overview.sheet import MAX_TEXT, Block, Cell, Row
from omnicfg.report.terminal import one_line
from omnicfg.report.yaml import inline
from omnicfg.tree import Mark

MAX_BYTES: Final = 16 << 20
"""Of texts, cells and rows. What comes after that is named, without its values."""

_ROLES: Final = ("wins", "source", "lost")


def matrix_data(overview: Overview) -> dict[str, Any]:
    """``texts``, ``cells``, ``rows`` and ``profiles``; each refers to those before it by position, -1 is none.

    A cell is ``[layer, known, places, links]``; links are ``role, value, layer, place, reason`` one after the other. A
    row is its key and a cell for each platform, or a single one where all platforms have the same.
    """
    made = _Data(overview)
    return {
        "platforms": list(overview.platforms),
        "profiles": [made.profile(each) for each in overview.profiles],
        "texts": made.texts.values,
        "cells": made.cells.values,
        "rows": made.rows.values,
    }


class _Pool:
    """Values that are kept once, each under its number."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._numbers: dict[Hashable, int] = {}

    def number(self, key: Hashable, value: Any) -> int:
        if key not in self._numbers:
            self._numbers[key] = len(self.values)
            self.values.append(value)
        return self._numbers[key]

    def __contains__(self, key: Hashable) -> bool:
        return key in self._numbers

    def known(self, key: Hashable) -> int:
        return self._numbers[key]


class _Data:
    def __init__(self, overview: Overview) -> None:
        self.overview = overview
        self.texts = _Pool()
        self.cells = _Pool()
        self.rows = _Pool()
        self._size = 0

    def profile(self, view: ProfileView) -> dict[str, Any]:
        is_full = self._size > MAX_BYTES
        return {
            "name": one_line(view.name),
            "pipeline": view.pipeline,
            "files": [one_line(file) for file in view.files[1:]],
            "blocks": [] if is_full else [self._block(block) for block in view.blocks],
            "left_out": is_full and bool(view.blocks),
            "refused": {platform: one_line(reason)[:MAX_TEXT] for platform, reason in view.refused.items()},
            "findings": [self._finding(number) for number in view.findings],
            "change": self._change(view),
        }

    def _text(self, text: str) -> int:
        if text not in self.texts:
            self._size += len(text) + 3
        return self.texts.number(text, text)

    def _block(self, block: Block) -> list[Any]:
        rows = [self._row(row) for row in block.rows]
        self._size += 8 * len(rows)
        return [_stage(block.stage_id), block.title, rows]

    def _row(self, row: Row) -> int:
        if row in self.rows:
            return self.rows.known(row)
        numbers = [-1 if cell is None else self._cell(cell) for cell in row.cells]
        self._size += 8 * len(numbers)
        return self.rows.number(row, [self._text(row.key), *(numbers[:1] if len(set(numbers)) == 1 else numbers)])

    def _cell(self, cell: Cell) -> int:
        if cell in self.cells:
            return self.cells.known(cell)
        links = [
            number
            for said in cell.chain
            for number in (_ROLES.index(said.role), *map(self._text, (said.value, said.layer, said.place, said.reason)))
        ]
        places = [self._text(place) for place in cell.places]
        self._size += 6 * (len(links) + len(places))
        known = self._text(cell.known) if cell.known else -1
        return self.cells.number(cell, [self._text(cell.layer), known, places, links])

    def _finding(self, number: int) -> list[Any]:
        """Its number, its place, its stage and its platforms; of these none for all of them."""
        finding: Diagnostic = self.overview.report.findings[number]
        place = one_line(str(Mark(finding.path, finding.line, finding.column)))
        platforms = finding.platform.split(",") if finding.platform else []
        return [number, self._text(place), _stage(finding.stage_id), _positions(platforms, self.overview.platforms)]

    def _change(self, view: ProfileView) -> dict[str, Any] | None:
        change = view.change
        if change is None:
            return None
        changes = change.comparison.changes if change.comparison else ()
        return {"status": change.status, "settings": [self._setting(grouped) for grouped in changes]}

    def _setting(self, grouped: Grouped) -> list[Any]:
        """The stage, key and platforms of a value that changed, and the value before."""
        change = grouped.change
        before = "not set" if change.kind == "added" else inline(change.shown(change.before))
        return [
            _stage(change.stage_id),
            one_line(change.key),
            _positions(grouped.platforms, self.overview.platforms),
            one_line(before)[:MAX_TEXT],
        ]


def _stage(stage_id: int | None) -> int:
    return -1 if stage_id is None else stage_id


def _positions(names: Sequence[str], platforms: Sequence[str]) -> list[int]:
    return [platforms.index(name) for name in names if name in platforms]
