"""What becomes of findings before anybody is told: settings, suppressions and the baseline, in this order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from omnicfg.diagnostics import Diagnostic, Severity


@dataclass(frozen=True)
class Report:
    """What there is to tell: the findings, and how many more were suppressed or known from a baseline."""

    findings: Sequence[Diagnostic]
    profiles: Sequence[str]
    fail_on: Severity = Severity.ERROR
    suppressed: int = 0
    baselined: int = 0

    def fails(self, finding: Diagnostic) -> bool:
        """Whether a finding is as bad as what the report is to fail on."""
        return finding.severity.rank <= self.fail_on.rank

    @property
    def exit_code(self) -> int:
        """1 where a finding fails the report."""
        return int(any(map(self.fails, self.findings)))
