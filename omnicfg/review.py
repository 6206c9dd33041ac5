"""What becomes of findings before anybody is told: settings, suppressions and the baseline, in this order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnicfg.diagnostics import Diagnostic, Severity

if TYPE_CHECKING:
    from omnicfg.check import Checked
    from omnicfg.settings import Settings
    from omnicfg.suppressions import Code, Suppression


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


def reviewed(checked: Checked, settings: Settings) -> tuple[list[Diagnostic], int]:
    """The findings that count, those about suppressions among them, and how many are suppressed."""
    from omnicfg.suppressions import Suppressions

    found = list(_applied(checked.findings, settings))
    suppressions = Suppressions(checked.files)
    told = suppressions.told(found)
    problems = suppressions.problems(known_codes() | checked.policies, _judge(checked, settings))
    counted = [*told, *_applied(problems, settings)]
    return sorted(counted, key=lambda finding: finding.sort_key), len(found) - len(told)


def known_codes() -> frozenset[str]:
    """The codes of all rules and refusals."""
    from omnicfg.refusals import REFUSALS
    from omnicfg.rule import rule_modules, rule_of

    return frozenset([rule_of(module).code for module in rule_modules()] + [each.code for each in REFUSALS.values()])


def _applied(findings: Iterable[Diagnostic], settings: Settings) -> Iterator[Diagnostic]:
    return (counted for finding in findings if (counted := settings.applied(finding)) is not None)


def _judge(checked: Checked, settings: Settings) -> Callable[[Suppression, Code], bool]:
    """Tells whether all was looked at that could have used a suppression."""
    from omnicfg.rule import DEFAULT_ENGINE, all_platforms, rule_modules, rule_of
    from omnicfg.suppressions import about_suppressions

    is_whole = (
        set(checked.platforms) >= set(settings.platforms or all_platforms())
        and checked.engine == (settings.engine or DEFAULT_ENGINE)
        and not checked.overridden
    )
    of_others = {rule_of(module).code for module in rule_modules() if rule_of(module).engine != checked.engine}
    codes = (known_codes() | checked.policies) - of_others - about_suppressions()

    def is_judged(suppression: Suppression, code: Code) -> bool:
        file = suppression.mark.file
        return is_whole and file in checked.whole and code.text in codes and not settings.is_off(code.text, file)

    return is_judged
