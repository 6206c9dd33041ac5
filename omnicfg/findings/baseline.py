"""Baselines: findings that were there before anybody looked, so that only new ones count.

The file is JSON (``schemas/baseline.schema.json``), with paths relative to its own folder.
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
        self.counts = counts

    @classmethod
    def read(cls, file: Path) -> Baseline:
        """What a file holds. Raises :class:`OmnicfgError` where it is none of ours."""
        data = _parsed(file)
        if not isinstance(data, dict) or not isinstance(data.get("findings"), list):
            raise _bad(file, "this is no baseline: it has no list of `findings`")
        if data.get("version") != VERSION:
            raise _bad(file, f"this is a baseline of version `{data.get('version')}`; this omnicfg knows {VERSION}")
        counts: Counter[Fingerprint] = Counter()
        for number, entry in enumerate(data["findings"]):
            if not _is_entry(entry):
                raise _bad(file, f"entry {number + 1} of `findings` is none of a baseline")
            counts[Fingerprint(entry["code"], entry["path"], entry["where"], entry["stage_id"])] += entry["count"]
        return cls(file, counts)

    @classmethod
    def write(cls, file: Path, findings: Iterable[Diagnostic]) -> Baseline:
        """Write the findings into a file, and give them as the baseline that it is now."""
        check_writable(file)
        made = cls(file, Counter())
        fingerprints = Fingerprints()
        messages: dict[Fingerprint, str] = {}
        for finding in findings:
            fingerprint = made.fingerprint(finding, fingerprints)
            made.counts[fingerprint] += 1
            messages.setdefault(fingerprint, without_passwords(finding.message))
        entries = [
            each._asdict() | {"count": made.counts[each], "message": messages[each]}
            for each in sorted(made.counts, key=lambda each: (each.path, each.where, each.code, str(each.stage_id)))
        ]
        write_whole(file, json.dumps({"version": VERSION, "findings": entries}, indent=1, ensure_ascii=False) + "\n")
        return made

    def fingerprint(self, finding: Diagnostic, fingerprints: Fingerprints) -> Fingerprint:
        """The fingerprint of a finding as this file has it."""
        return fingerprints.of(finding, relative(finding.path, self.file.parent))

    def new(self, findings: Iterable[Diagnostic]) -> tuple[list[Diagnostic], Counter[Fingerprint]]:
        """The findings that are not known, and how many are left of those that are: mended since, or not looked at."""
        left, fingerprints, new = Counter(self.counts), Fingerprints(), []
        for finding in findings:
            fingerprint = self.fingerprint(finding, fingerprints)
            if left[fingerprint] > 0:
                left[fingerprint] -= 1
            else:
                new.append(finding)
        return new, +left

    def stale(self, left: Counter[Fingerprint], is_judged: Callable[[str, Path], bool]) -> Iterator[Fingerprint]:
        """Of what is left, what the file need not know any more.

        ``is_judged(code, file)`` tells whether all was looked at that could have shown such a finding in a file.
        """
        for fingerprint in left:
            file = self.file.parent / fingerprint.path
            if is_judged(fingerprint.code, file) or _is_gone(fingerprint.path, file):
                yield fingerprint


def relative(path: str, folder: Path) -> str:
    """A file as it is named from a folder, with slashes; what is no file (``--set x=1``, a shipped name) as it is."""
    if not path or path.startswith("--") or not Path(path).exists():
        return path
    return os.path.relpath(path, folder).replace(os.sep, "/")


def _is_gone(name: str, file: Path) -> bool:
    """Whether a name is that of a file, and there is none."""
    return (
        bool(name) and not name.startswith("--") and name.removesuffix(".yaml") not in library() and not file.exists()
    )


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
