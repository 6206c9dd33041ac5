"""Baselines: findings that were there before anybody looked, so that only new ones count.

The file is JSON (``schemas/baseline.schema.json``), with paths relative to its own folder. Links to folders are
followed, so that a file has one path however it was reached. A file that is itself a link keeps its own name: it is a
profile of its own, whose bases are looked for from where the link is.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from omnicfg.catalog.library import library
from omnicfg.confine import require_readable
from omnicfg.diagnostics import Diagnostic, Severity
from omnicfg.errors import OmnicfgError, UsageError
from omnicfg.files import check_writable, write_whole
from omnicfg.findings.fingerprints import Fingerprint, Fingerprints
from omnicfg.secrets import without_passwords
from omnicfg.tree import Mark

VERSION: Final = 1
MAX_BYTES: Final = 1 << 26
_FIELDS: Final[Mapping[str, tuple[type, ...]]] = {
    "code": (str,),
    "path": (str,),
    "where": (str,),
    "stage_id": (int, type(None)),
    "count": (int,),
    "message": (str,),
}


class Baseline:
    """The findings that a file knows: how many there are of each fingerprint."""

    def __init__(self, file: Path, counts: Counter[Fingerprint]) -> None:
        self.file = file
        self.folder = Path(os.path.realpath(file.parent))
        self.counts = counts

    @classmethod
    def read(cls, file: Path) -> Baseline:
        """What a file holds. Raises :class:`OmnicfgError` where it is none of ours."""
        data = _parsed(file)
        if not isinstance(data, dict) or not isinstance(data.get("findings"), list):
            raise _bad(file, "this is no baseline: it has no list of `findings`")
        if data.get("version") != VERSION:
            raise _bad(file, f"this is a baseline of version `{data.get('version')}`; this omnicfg knows {VERSION}")
        known, counts = cls(file, Counter()), _Counts()
        for number, entry in enumerate(data["findings"]):
            if not _is_entry(entry):
                raise _bad(file, f"entry {number + 1} of `findings` is none of a baseline")
            path = relative(entry["path"], known.folder, known.folder)
            counts.add(
                entry["path"], Fingerprint(entry["code"], path, entry["where"], entry["stage_id"]), entry["count"]
            )
        known.counts = counts.most()
        return known

    @classmethod
    def write(cls, file: Path, findings: Iterable[Diagnostic]) -> Baseline:
        """Write the findings into a file, and give them as the baseline that it is now."""
        check_writable(file)
        made = cls(file, Counter())
        fingerprints, counts = Fingerprints(), _Counts()
        messages: dict[Fingerprint, str] = {}
        for finding in findings:
            fingerprint = made.fingerprint(finding, fingerprints)
            counts.add(finding.path, fingerprint)
            messages.setdefault(fingerprint, without_passwords(finding.message))
        made.counts = counts.most()
        entries = [
            each._asdict() | {"count": made.counts[each], "message": messages[each]}
            for each in sorted(made.counts, key=lambda each: (each.path, each.where, each.code, str(each.stage_id)))
        ]
        write_whole(file, json.dumps({"version": VERSION, "findings": entries}, indent=1, ensure_ascii=False) + "\n")
        return made

    def fingerprint(self, finding: Diagnostic, fingerprints: Fingerprints) -> Fingerprint:
        """The fingerprint of a finding as this file has it."""
        return fingerprints.of(finding, relative(finding.path, self.folder))

    def new(self, findings: Iterable[Diagnostic]) -> tuple[list[Diagnostic], Counter[Fingerprint]]:
        """The findings that are not known, and how many are left of those that are: mended since, or not looked at."""
        met, fingerprints, new = _Counts(), Fingerprints(), []
        for finding in findings:
            fingerprint = self.fingerprint(finding, fingerprints)
            if met.add(finding.path, fingerprint) > self.counts[fingerprint]:
                new.append(finding)
        return new, self.counts - met.most()

    def stale(self, left: Counter[Fingerprint], is_judged: Callable[[str, Path], bool]) -> Iterator[Fingerprint]:
        """Of what is left, what the file need not know any more.

        ``is_judged(code, file)`` tells whether all was looked at that could have shown such a finding in a file.
        """
        for fingerprint in left:
            file = self.folder / fingerprint.path
            if is_judged(fingerprint.code, file) if _is_there(file) else _is_of_a_file(fingerprint.path):
                yield fingerprint


class _Counts:
    """How many findings there are of each fingerprint; those of a file that is met under several names count once."""

    def __init__(self) -> None:
        self._under: dict[str, Counter[Fingerprint]] = {}

    def add(self, name: str, fingerprint: Fingerprint, count: int = 1) -> int:
        """Count more findings of a file under a name; how many there are under this name now."""
        counts = self._under.setdefault(name, Counter())
        counts[fingerprint] += count
        return counts[fingerprint]

    def most(self) -> Counter[Fingerprint]:
        """The most that any name of a file has."""
        most: Counter[Fingerprint] = Counter()
        for counts in self._under.values():
            most |= counts
        return most


def relative(path: str, folder: Path, start: Path = Path()) -> str:
    """A file that is named from ``start`` as it is named from ``folder``, a real one, with slashes.

    What is no file (``--set x=1``, a shipped name) stays as it is.
    """
    if not path or path.startswith("--") or not _is_there(start / path):
        return path
    return os.path.relpath(located(start / path), folder).replace(os.sep, "/")


def located(path: Path) -> str:
    """A file's own name in the real folder that it is in: links to folders are followed, one to the file is not."""
    return str(Path(os.path.realpath(path.parent)) / path.name)


def _is_there(file: Path) -> bool:
    """Whether there is such a file; ``Path.exists`` raises for names that no file can have."""
    return os.path.exists(file)  # noqa: PTH110


def _is_of_a_file(name: str) -> bool:
    """Whether a name is that of a file of the user's, be it there or not."""
    return bool(name) and not name.startswith("--") and name.removesuffix(".yaml") not in library()


def _parsed(file: Path) -> Any:
    require_readable(file)
    try:
        with file.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except OSError as error:
        help = f"`--write-baseline {file}` makes one." if isinstance(error, FileNotFoundError) else None
        raise UsageError(f"the baseline `{file}` cannot be read: {error.strerror}", help) from None
    if len(raw) > MAX_BYTES:
        raise _bad(file, f"this baseline has more than {MAX_BYTES} bytes")
    try:
        return json.loads(raw)
    except json.JSONDecodeError as error:
        raise _bad(file, f"this is not JSON: {error.msg}", error.lineno, error.colno) from None
    except (UnicodeDecodeError, RecursionError):
        raise _bad(file, "this is not JSON") from None


def _is_entry(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and set(entry) == set(_FIELDS)
        and all(type(entry[name]) in kinds for name, kinds in _FIELDS.items())
        and entry["count"] > 0
    )


def _bad(file: Path, message: str, line: int = 0, column: int = 0) -> OmnicfgError:
    mark = Mark(str(file), line, column, line, column + 1)
    help = f"`--write-baseline {file}` writes it anew."
    return OmnicfgError([Diagnostic.at(mark, "OC000", "baseline", Severity.ERROR, message, help=help)])
