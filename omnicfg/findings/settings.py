"""What a team has settled about its findings: which rules count, how much, where, and what is looked at by default."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from omnicfg.diagnostics import Diagnostic, Severity

OFF: Final = "off"


@dataclass(frozen=True)
class PathRules:
    """What counts in some files: globs relative to the settings' root, and a severity or ``None`` (off) by code."""

    files: tuple[str, ...]
    rules: Mapping[str, Severity | None]


@dataclass(frozen=True)
class Settings:
    """What is configured; each part that is not is empty or ``None``. Paths are as they can be opened from here."""

    file: Path | None = None
    platforms: tuple[str, ...] = ()
    engine: str | None = None
    vllm_version: str | None = None
    fail_on: str | None = None
    formats: tuple[str, ...] = ()
    baseline: Path | None = None
    policies: tuple[Path, ...] = ()
    rules: Mapping[str, Severity | None] = field(default_factory=dict)
    paths: tuple[PathRules, ...] = ()

    def is_off(self, code: str, path: str) -> bool:
        """Whether findings of a code are off in a file."""
        return self._severities(path).get(code, Severity.NOTE) is None

    def applied(self, finding: Diagnostic) -> Diagnostic | None:
        """The finding as it counts here; ``None`` where it is off."""
        severities = self._severities(finding.path)
        if finding.code not in severities:
            return finding
        severity = severities[finding.code]
        return None if severity is None else replace(finding, severity=severity)

    def _severities(self, path: str) -> Mapping[str, Severity | None]:
        """What is configured for a file; of several entries that match it the last one wins, code by code."""
        if not self.paths or self.file is None or not path or path.startswith("--"):
            return self.rules
        relative = os.path.relpath(path, self.file.parent).replace(os.sep, "/")
        severities = dict(self.rules)
        for entry in self.paths:
            if any(matches(glob, relative) for glob in entry.files):
                severities |= entry.rules
        return severities


def matches(glob: str, path: str) -> bool:
    """Whether a glob means a path, or a directory that holds it.

    ``*`` and ``?`` stay within a name, ``**`` is any number of directories; both with slashes, relative to one place.
    """
    return _pattern(glob).match(path) is not None


@functools.cache
def _pattern(glob: str) -> re.Pattern[str]:
    parts = [part for part in glob.split("/") if part not in ("", ".")]
    text = "".join(r"(?:[^/]+/)*" if part == "**" else _name(part) + "/" for part in parts)
    # What a glob means is a whole path or the beginning of one; `a/**` is everything in `a`.
    return re.compile(text.removesuffix("/") + r"(?:/|\Z)" if text.endswith("/") else text + r"[^/]")


def _name(part: str) -> str:
    return "".join({"*": "[^/]*", "?": "[^/]"}.get(character, re.escape(character)) for character in part)
