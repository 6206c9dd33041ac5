"""OC903: a suppression of a code that no finding has."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from omnicfg.diagnostics import Severity
from omnicfg.findings.suppressions import Judged, about_suppressions
from omnicfg.near import did_you_mean
from omnicfg.refusals import REFUSALS
from omnicfg.rule import Finding, Rule, rule_modules, rule_of

RULE = Rule(
    code="OC903",
    name="unknown-suppression",
    severity=Severity.WARNING,
    what="A suppression that names a code which does not exist, or one of the rules about suppressions themselves.",
    why="It suppresses nothing, and whoever reads it believes that it does.",
    bad="""\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 0
    max_num_seqs: 8  # omnicfg: ignore[OC6003] because this profile is only ever compiled
""",
    good="""\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 0
    max_num_seqs: 8
    max_num_batched_tokens: 4  # omnicfg: ignore[OC603] because this profile is only ever compiled
""",
)


def check_suppression(judged: Judged) -> Iterator[Finding]:
    """Every code of a suppression that can be read."""
    for code in () if judged.suppression.problem else judged.suppression.codes:
        if code.text in about_suppressions():
            yield Finding(
                code.mark,
                f"`{code.text}` is about suppressions, and no comment suppresses it",
                "Mend what it reports, or turn the rule off in the configuration.",
            )
        elif code.text not in judged.codes:
            yield Finding(code.mark, f"no finding has the code `{code.text}`", _hint(code.text, judged.codes))


@functools.cache
def _hint(text: str, codes: frozenset[str]) -> str:
    names = {rule_of(module).name: rule_of(module).code for module in rule_modules()}
    names |= {name: refusal.code for name, refusal in REFUSALS.items()}
    if text in names:
        return f"`{text}` has the code `{names[text]}`."
    return did_you_mean(text, codes) or "`omnicfg rules` lists the codes."
