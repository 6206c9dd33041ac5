"""Rows in columns, for a terminal or as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Final, NamedTuple

from omnicfg.report.terminal import Style, cells, one_line, pad, printable, wrap

_GAP: Final = "  "
_STACKED: Final = "    "
_PROSE: Final = 24  # columns that the last cell of a row needs at least to be read with ease


class Cell(NamedTuple):
    """A text and the name of the style that a terminal shows it in.

    Its line breaks are shown as escapes, as they may be anybody's, but for ``lines``: a text of our own.
    """

    text: str
    style: str = ""
    lines: bool = False


Row = Sequence[str | Cell]


def render_table(
    rows: Iterable[Row], style: Style, width: int | None, *, headers: Sequence[str] = (), indent: str = ""
) -> str:
    """Aligned columns, two spaces apart.

    Where ``width`` is too small, the last column is wrapped; where that would leave it a few characters, each row
    becomes a block of lines, its first cell on top.
    """
    body = [[_cell(cell) for cell in row] for row in rows]
    if headers:
        body.insert(0, [Cell(header, "strong") for header in headers])
    widths = [max(cells(cell.text) for cell in column) for column in zip(*body, strict=True)]
    while widths and not widths[-1]:
        widths.pop()
    if not widths:
        return ""
    body = [row[: len(widths)] for row in body]
    if width is not None:
        spare = width - cells(indent) - sum(widths[:-1]) - len(_GAP) * (len(widths) - 1)
        if spare < min(widths[-1], _PROSE):
            return "".join(f"{indent}{line}\n" for line in _blocks(body, headers, style, width - cells(indent)))
        widths[-1] = min(widths[-1], spare)
    return "".join(f"{indent}{line}\n" for row in body for line in _lines(row, widths, style))


def _cell(cell: str | Cell) -> Cell:
    if isinstance(cell, str):
        return Cell(one_line(cell))
    return cell._replace(text=printable(cell.text) if cell.lines else one_line(cell.text))


def _lines(row: Sequence[Cell], widths: Sequence[int], style: Style) -> Iterator[str]:
    """A row in its columns, over as many lines as its tallest cell needs."""
    wrapped = [wrap(cell.text, width) for cell, width in zip(row, widths, strict=True)]
    for parts in zip_longest(*wrapped, fillvalue=""):
        shown = [
            _styled(cell, part, style) + pad(part, width)[len(part) :]
            for cell, part, width in zip(row, parts, widths, strict=True)
        ]
        yield _GAP.join(shown).rstrip()


def _blocks(body: Sequence[Sequence[Cell]], headers: Sequence[str], style: Style, width: int) -> Iterator[str]:
    """Each row as a block: its first cell, and below it the others, with their headers where there are any.

    A number on top says what it is the number of: ``stage 0``.
    """
    for row in body[1:] if headers else body:
        first, *others = row
        if headers and first.text.isdecimal():
            first = first._replace(text=f"{headers[0]} {first.text}")
        yield from _shown(first, style, width)
        together = _GAP.join(cell.text for cell in others if cell.text)
        if not headers and cells(together) <= width - len(_STACKED):
            yield _STACKED + _GAP.join(_styled(cell, cell.text, style) for cell in others if cell.text)
            continue
        for cell, header in zip_longest(others, headers[1:]):
            if cell.text:
                name = f"{header}: " if header else ""
                first_line, *rest = _shown(cell, style, width - len(_STACKED), len(name))
                yield f"{_STACKED}{name}{first_line}"
                yield from (f"{_STACKED}{line}" for line in rest)


def _shown(cell: Cell, style: Style, width: int, lead: int = 0) -> list[str]:
    """A cell's lines, the first of them ``lead`` columns shorter, where a name stands before it."""
    first, *rest = wrap("_" * lead + cell.text, width)
    return [_styled(cell, line, style) for line in (first[lead:], *rest)]


def _styled(cell: Cell, text: str, style: Style) -> str:
    return style(cell.style, text) if cell.style else text


def render_markdown(rows: Iterable[Row], headers: Sequence[str]) -> str:
    """A table in GitHub's Markdown."""
    head, *body = ([_markdown(cell) for cell in row] for row in (headers, *rows))
    return "".join("| " + " | ".join(line) + " |\n" for line in (head, ["---"] * len(headers), *body))


def code_span(text: str) -> str:
    """A text of one line as it is, in Markdown: between more backticks than it has in a row itself
    (https://spec.commonmark.org/0.31.2/#code-spans).
    """
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    pad = " " if "`" in text or not text else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def _markdown(cell: str | Cell) -> str:
    text = printable(cell if isinstance(cell, str) else cell.text)
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", "<br>")
