"""What the formats of a report share: a finding in words, and its file as the tools of a repository know it."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

from omnicfg.diagnostics import Diagnostic
from omnicfg.files import current_folder
from omnicfg.findings.fingerprints import Fingerprints
from omnicfg.report.terminal import one_line


def told(finding: Diagnostic) -> str:
    """The message, with the platforms that it holds on where it does not on all, and what to do on a line below."""
    where = f" (on {finding.platform.replace(',', ', ')})" if finding.platform else ""
    help = f"\n{one_line(finding.help)}" if finding.help else ""
    return one_line(finding.message) + where + help


class Repository:
    """Files by their paths from the root of the repository that one is in; from here, where there is none."""

    def __init__(self) -> None:
        here = current_folder()
        self.root = next((path for path in (here, *here.parents) if os.path.lexists(path / ".git")), here)
        self._fingerprints = Fingerprints()
        self._numbers: Counter[str] = Counter()

    def path(self, name: str) -> str | None:
        """The path of a file with slashes; ``None`` for what is no file of the repository."""
        if not name or name.startswith("--"):
            return None
        try:
            path = Path(os.path.relpath(os.path.abspath(name), self.root))  # noqa: PTH100  # links stay as they are named
        except ValueError:  # on Windows: a file of another drive
            return None
        return None if path.parts[:1] == (os.pardir,) else path.as_posix()

    def fingerprint(self, finding: Diagnostic) -> str:
        """What tells a finding apart from run to run; of equal ones each has its number."""
        digest = self._fingerprints.of(finding, self.path(finding.path) or finding.path).digest
        self._numbers[digest] += 1
        return f"{digest}:{self._numbers[digest]}"
