"""CSV files as untrusted tables: every value has a place, and a wrong one is told with it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from omnicfg.diagnostics import Diagnostic, Severity
from omnicfg.errors import OmnicfgError, UsageError
from omnicfg.near import did_you_mean
from omnicfg.wording import is_plain

MAX_ROWS: Final = 2000
_ROW_BYTES: Final = 1 << 9
"""Of a row, on the average, at most."""
_SHOWN: Final = 60
"""Of a value, in a message about it."""
_CELL: Final = re.compile(r'(?:"(?:[^"]|"")*"|[^,]*)(?:,|$)')

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Cell:
    """A value and where it stands; line and column count from 1."""

    text: str
    path: str
    line: int
    column: int

    @property
    def shown(self) -> str:
        """The value in a message."""
        return self.text if len(self.text) <= _SHOWN else f"{self.text[:_SHOWN]}…"

    def error(self, message: str, help: str | None = None) -> Diagnostic:
        """What is wrong with the value."""
        end = self.column + max(len(self.text), 1)
        place = (self.path, self.line, self.column, self.line, end)
        return Diagnostic("OC000", "table", Severity.ERROR, message, *place, help=help)

    def taken(self, convert: Callable[[str], T], expected: str) -> T:
        """The value that the text stands for. Raises :class:`OmnicfgError` where ``convert`` raises ``ValueError``."""
        try:
            return convert(self.text)
        except (ValueError, OverflowError):
            raise OmnicfgError([self.error(f"`{self.shown}` is not {expected}")]) from None


Row = Mapping[str, Cell]


def read_table(
    path: Path, required: Iterable[str], optional: Iterable[str], *, of: str = "loads", rows: int = MAX_ROWS
) -> Iterator[Row]:
    """The rows below the header, each a mapping from column to :class:`Cell`; an empty cell is left out.

    One line is one row; those without values, as spreadsheets write them, and those that begin with ``#`` are none.
    ``of`` says what the rows are, and there may be ``rows`` of them. Raises :class:`OmnicfgError` with the place of
    what is wrong.
    """
    lines = ((number, line) for number, line in enumerate(_lines(path, of, rows), 1) if _says_something(line))
    number, line = next(lines, (1, ""))
    if not line:
        empty = Cell("", str(path), number, 1)
        raise OmnicfgError([empty.error("there is no table in the file", "Its first line names the columns.")])
    header = _cells(line, str(path), number)
    names = [cell.text for cell in header]
    _check_header(header, list(required), list(optional), of)
    for number, line in lines:
        cells = _cells(line, str(path), number)
        if len(cells) != len(names):
            problem = f"{len(cells)} values in a table of {len(names)} columns"
            raise OmnicfgError([cells[min(len(cells), len(names)) - 1].error(problem)])
        row = {name: cell for name, cell in zip(names, cells, strict=True) if cell.text}
        if row:
            yield row


def needed(row: Row, name: str) -> Cell:
    """The cell of a column that has to have a value. Raises :class:`OmnicfgError`."""
    if name in row:
        return row[name]
    other = next(iter(row.values()))
    raise OmnicfgError([other.error(f"the row has no {name}")])


def real_number(text: str) -> float:
    """A value as a number, written as people write numbers. Raises ``ValueError``."""
    value = float(text) if is_plain(text) else math.nan
    if not math.isfinite(value):
        raise ValueError
    return value


def _lines(path: Path, of: str, rows: int) -> list[str]:
    most = rows * _ROW_BYTES
    try:
        with path.open("rb") as stream:
            content = stream.read(most + 1)
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"`{path}` cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"`{path}` is no text in UTF-8") from None
    # Not splitlines, which has more ends of lines than editors have.
    lines = text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n").split("\n") if text else []
    if len(content) > most or len(lines) > rows:
        raise UsageError(f"`{path}` is too large for a table of {of}", f"At most {rows} lines, {most} bytes.")
    return lines


def _says_something(line: str) -> bool:
    return bool(line.strip(", \t")) and not line.startswith("#")


def _cells(line: str, path: str, number: int) -> list[Cell]:
    cells: list[Cell] = []
    position = 0
    while position <= len(line):
        match = _CELL.match(line, position)
        assert match is not None, "it matches up to the end at the latest"
        raw = match[0].removesuffix(",")
        cells.append(Cell(_unquoted(raw.strip()), path, number, position + 1 + len(raw) - len(raw.lstrip())))
        if not match[0].endswith(","):
            break
        position = match.end()
    return cells


def _unquoted(text: str) -> str:
    """What a cell holds. Of a quote that is never closed it is not known where it ends, so it stays a part of it."""
    is_quoted = len(text) > 1 and text[0] == text[-1] == '"'
    return text[1:-1].replace('""', '"').strip() if is_quoted else text


def _check_header(header: list[Cell], required: list[str], optional: list[str], of: str) -> None:
    known = [*required, *optional]
    problems = [
        cell.error(f"there is no column `{cell.shown}` in a table of {of}", did_you_mean(cell.shown, known))
        if cell.text
        else cell.error("a column has no name", f"A table of {of} has {', '.join(known)}.")
        for cell in header
        if cell.text not in known
    ]
    names = [cell.text for cell in header]
    problems += [
        cell.error(f"column `{cell.shown}` is there twice")
        for index, cell in enumerate(header)
        if cell.text and cell.text in names[:index]
    ]
    missing = [name for name in required if name not in names]
    if missing:
        problems.append(header[-1].error(f"columns are missing: {', '.join(missing)}"))
    if problems:
        raise OmnicfgError(problems)
