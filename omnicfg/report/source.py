"""The lines that diagnostics point at, as they may be shown: bounded, and with credentials hidden."""

from __future__ import annotations

import functools
import re
import stat
from pathlib import Path
from typing import Final

from omnicfg.catalog.paths import profiles_dir
from omnicfg.secrets import HIDDEN, looks_secret, secret_spans

_MAX_BYTES: Final = 1 << 20
_NOT_SHOWN: Final = (".py", ".json")  # places in upstream's source and in shipped data, not in a file of the user
_KEY: Final = re.compile(r"""^(?P<indent>[\s-]*)["']?(?P<key>[\w.-]+)["']?\s*:""")


class Line:
    """One line of a source: its text, and where the parts of it that had been hidden lie."""

    def __init__(self, text: str, hidden: list[tuple[int, int]]) -> None:
        self._spans = hidden
        self._text = text

    @functools.cached_property
    def pieces(self) -> list[tuple[int, int, str]]:
        """(start, end, shown text) for each run of the line: single characters, and hidden parts as a whole."""
        found: list[tuple[int, int, str]] = []
        position = 0
        for start, end in [*self._spans, (len(self._text), len(self._text))]:
            found += [(index, index + 1, self._text[index]) for index in range(position, start)]
            if end > start:
                found.append((start, end, HIDDEN))
            position = end
        return found


class Sources:
    """Reads each file once. A file that cannot be read, or is none, has no lines."""

    def __init__(self) -> None:
        self._files: dict[str, list[str]] = {}
        self._shown: dict[tuple[str, int], Line] = {}

    def line(self, file: str, number: int) -> Line | None:
        """Line ``number`` (from 1) of a file, or ``None``."""
        lines = self._lines(file)
        if not 1 <= number <= len(lines):
            return None
        if (file, number) not in self._shown:
            self._shown[file, number] = line_at(lines, number - 1)
        return self._shown[file, number]

    def _lines(self, file: str) -> list[str]:
        if file not in self._files:
            self._files[file] = _read(file)
        return self._files[file]


def line_at(lines: list[str], index: int) -> Line:
    """One of a file's lines (from 0) as it may be shown."""
    text = lines[index]
    if _continues_secret(lines, index):
        start = len(text) - len(text.lstrip())
        return Line(text, [(start, len(text))] if start < len(text) else [])
    with_its_key = index == 0 or _KEY.match(text)
    return Line(text, secret_spans(text, above="" if with_its_key else lines[index - 1]))


def _continues_secret(lines: list[str], index: int) -> bool:
    """Whether a line without a key of its own holds the value of a secret key above it."""
    if _KEY.match(lines[index]):
        return False
    depth = len(lines[index]) - len(lines[index].lstrip())
    for line in reversed(lines[max(0, index - 100) : index]):
        match = _KEY.match(line)
        if match and len(match["indent"]) <= depth:
            return looks_secret(match["key"])
    return False


def _read(file: str) -> list[str]:
    if file.endswith(_NOT_SHOWN) or file.startswith("--"):
        return []
    for path in (Path(file), profiles_dir() / file):
        try:
            if not stat.S_ISREG(path.stat().st_mode):
                continue
            with path.open("rb") as stream:
                text = stream.read(_MAX_BYTES).decode("utf-8", "replace")
        except (OSError, ValueError):
            continue
        return re.split(r"\r\n|\r|\n|\x85|\u2028|\u2029", text.removeprefix("\ufeff"))
    return []
