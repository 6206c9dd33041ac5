"""What becomes of findings before anybody is told: settings, suppressions and the baseline, in this order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from omnicfg.buffers import identity
from omnicfg.diagnostics import Diagnostic, Severity

if TYPE_CHECKING:
    from omnicfg.check import Checked
    from omnicfg.findings.baseline import Baseline
    from omnicfg.findings.fingerprints import Fingerprint
    from omnicfg.findings.settings import Settings


@dataclass(frozen=True)
class Report:
    """What there is to tell: the findings, and how many more were suppressed or known from a baseline.

    ``stale`` is what the baseline knows and nobody finds any more, with its number.
    """

    findings: Sequence[Diagnostic]
    profiles: Sequence[str]
    fail_on: Severity = Severity.ERROR
    suppressed: int = 0
    baselined: int = 0
    stale: tuple[tuple[Fingerprint, int], ...] = ()

    def fails(self, finding: Diagnostic) -> bool:
        """Whether a finding is as bad as what the report is to fail on."""
        return finding.severity.rank <= self.fail_on.rank

    @property
    def exit_code(self) -> int:
        """1 where a finding fails the report."""
        return int(any(map(self.fails, self.findings)))

    @property
    def fixable(self) -> int:
        """How many findings have a safe fix in the files that are named."""
        fixes = [finding.fix for finding in self.findings if finding.fix is not None and finding.fix.safe]
        return sum({edit.mark.file for edit in fix.edits} <= set(self.profiles) for fix in fixes)


def report_of(checked: Checked, settings: Settings, baseline: Baseline | None, fail_on: Severity) -> Report:
    """The report of what was found in profiles."""
    findings, suppressed = reviewed(checked, settings)
    if baseline is None:
        return Report(findings, checked.profiles, fail_on, suppressed)
    from omnicfg.findings.baseline import located

    new, left = baseline.new(findings)
    stale = tuple((each, left[each]) for each in baseline.stale(left, judge(checked, settings, located)))
    return Report(new, checked.profiles, fail_on, suppressed, len(findings) - len(new), stale)


def reviewed(checked: Checked, settings: Settings) -> tuple[list[Diagnostic], int]:
    """The findings that count, those about suppressions among them, and how many are suppressed."""
    from omnicfg.findings.suppressions import Suppressions

    found = list(_applied(checked.findings, settings))
    suppressions = Suppressions(checked.files)
    told = suppressions.told(found)
    problems = suppressions.problems(known_codes() | checked.policies, judge(checked, settings))
    counted = [*told, *_applied(problems, settings)]
    return sorted(counted, key=lambda finding: finding.sort_key), len(found) - len(told)


def known_codes() -> frozenset[str]:
    """The codes of all rules and refusals."""
    from omnicfg.refusals import REFUSALS
    from omnicfg.rule import rule_modules, rule_of

    return frozenset([rule_of(module).code for module in rule_modules()] + [each.code for each in REFUSALS.values()])


def _applied(findings: Iterable[Diagnostic], settings: Settings) -> Iterator[Diagnostic]:
    return (counted for finding in findings if (counted := settings.applied(finding)) is not None)


def judge(
    checked: Checked, settings: Settings, identify: Callable[[Path], str] = identity
) -> Callable[[str, Path], bool]:
    """Tells of a code and a file whether all was looked at that could have found it there.

    Where it was and nothing was found, a suppression or a baseline expects what is no longer there. ``identify`` says
    what they tell files apart by.
    """
    from omnicfg.findings.suppressions import about_suppressions
    from omnicfg.rule import DEFAULT_ENGINE, all_platforms, rule_modules, rule_of

    is_whole = (
        set(checked.platforms) >= set(settings.platforms or all_platforms())
        and checked.engine == (settings.engine or DEFAULT_ENGINE)
        and checked.vllm_version in (None, settings.vllm_version)
        and not checked.overridden
    )
    rules = [rule_of(module) for module in rule_modules()]
    of_others = {rule.code for rule in rules if rule.engine not in (DEFAULT_ENGINE, checked.engine)}
    codes = (known_codes() | checked.policies) - of_others - about_suppressions() if is_whole else frozenset()
    whole = {identify(checked.files[name]) for name in checked.whole}

    def is_judged(code: str, file: Path) -> bool:
        return code in codes and identify(file) in whole and not settings.is_off(code, str(file))

    return is_judged
