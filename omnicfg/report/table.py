"""Rows in columns, for a terminal or as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Final, NamedTuple

from omnicfg.report.terminal import Style, cells, pad, printable, wrap

_GAP: Final = "  "
_NARROWEST: Final = 8


class Cell(NamedTuple):
    """A text and the name of the style that a terminal shows it in."""

    text: str
    style: str = ""


Row = Sequence[str | Cell]


def render_table(
    rows: Iterable[Row], style: Style, width: int | None, *, headers: Sequence[str] = (), indent: str = ""
) -> str:
    """Aligned columns, two spaces apart. Where ``width`` is too small for them, the widest ones are wrapped."""
    body = [[_cell(cell) for cell in row] for row in rows]
    if headers:
        body.insert(0, [Cell(header, "strong") for header in headers])
    if not body:
        return ""
    widths = [max(cells(row[column].text) for row in body) for column in range(len(body[0]))]
    if width is not None:
        _shrink(widths, width - len(indent))
    return "".join(f"{indent}{line}\n" for row in body for line in _lines(row, widths, style))


def _cell(cell: str | Cell) -> Cell:
    return Cell(printable(cell)) if isinstance(cell, str) else Cell(printable(cell.text), cell.style)


def _shrink(widths: list[int], width: int) -> None:
    """Take columns from the widest until all fit, but leave each a few."""
    spare = width - len(_GAP) * (len(widths) - 1)
    while sum(widths) > spare and max(widths) > _NARROWEST:
        widest = max(range(len(widths)), key=widths.__getitem__)
        second = max((size for column, size in enumerate(widths) if column != widest), default=0)
        lowest = max(second - 1, _NARROWEST, widths[widest] - (sum(widths) - spare))
        widths[widest] = min(lowest, widths[widest] - 1)


def _lines(row: Sequence[Cell], widths: Sequence[int], style: Style) -> Iterator[str]:
    wrapped = [wrap(cell.text, width) for cell, width in zip(row, widths, strict=True)]
    for parts in zip_longest(*wrapped, fillvalue=""):
        shown = [
            (style(cell.style, part) if cell.style else part) + pad(part, width)[len(part) :]
            for cell, part, width in zip(row, parts, widths, strict=True)
        ]
        yield _GAP.join(shown).rstrip()


def render_markdown(rows: Iterable[Row], headers: Sequence[str]) -> str:
    """A table in GitHub's Markdown."""
    lines = [headers, ["---"] * len(headers), *([_markdown(cell) for cell in row] for row in rows)]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def _markdown(cell: str | Cell) -> str:
    text = _cell(cell).text
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", "<br>")
