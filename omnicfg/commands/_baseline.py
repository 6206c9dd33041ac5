"""``validate --baseline`` and ``--write-baseline``."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from omnicfg.errors import UsageError
from omnicfg.findings.review import Report
from omnicfg.wording import counted

if TYPE_CHECKING:
    from omnicfg.findings.baseline import Baseline

_SHOWN: Final = 10


def baseline_of(file: Path | None) -> Baseline | None:
    """The baseline that a file holds, where one is named."""
    if file is None:
        return None
    from omnicfg.findings.baseline import Baseline

    return Baseline.read(file)


def known_findings(read: Path | None, write: Path | None, configured: Path | None) -> Baseline | None:
    """The baseline of ``--baseline``, or else the configured one; none where all findings are to be written."""
    if read is not None and write is not None:
        raise UsageError(
            "`--baseline` and `--write-baseline` contradict each other",
            "`--write-baseline` writes all that is found, whether it was known or not.",
        )
    return None if write is not None else baseline_of(read or configured)


def written(report: Report, file: Path) -> Report:
    """Write all findings of a report as known; the report in which they are."""
    from omnicfg.findings.baseline import Baseline

    Baseline.write(file, report.findings)
    return replace(report, findings=(), baselined=len(report.findings))


def tell_stale(report: Report, baseline: Baseline | None) -> None:
    """Say on standard error what the baseline knows and nobody finds any more."""
    if not report.stale or baseline is None:
        return
    from omnicfg.report.terminal import one_line

    count = sum(number for _, number in report.stale)
    entries = f"{counted(count, 'finding')} of {one_line(str(baseline.file))}"
    lines = [f"note: {entries} {'are' if count > 1 else 'is'} there no more; `--write-baseline` makes it current:"]
    lines += [one_line(f"  {entry.path}: {entry.code} {entry.where}") for entry, _ in report.stale[:_SHOWN]]
    lines += [f"  and {len(report.stale) - _SHOWN} more"] if len(report.stale) > _SHOWN else []
    print("\n".join(lines), file=sys.stderr)
