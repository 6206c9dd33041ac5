"""OC904: a suppression of something that is not found."""

from __future__ import annotations

from collections.abc import Iterator

from omnicfg.diagnostics import Edit, Fix, Severity
from omnicfg.findings.suppressions import Judged, Suppression
from omnicfg.rule import Finding, Rule
from omnicfg.wording import listed

RULE = Rule(
    code="OC904",
    name="unused-suppression",
    severity=Severity.WARNING,
    what="A suppression of a code that is not found where the suppression holds.",
    why=(
        "What it was written for is mended, or it stands on the wrong line; left there, it hides the next mistake of "
        "its kind. It is told only where everything was looked at that could have used it: all configured platforms, "
        "the configured engine, no `--set`, no `--overlay`, and a file that was named itself, not only as a base."
    ),
    bad="""\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 0
    max_num_seqs: 8
    max_num_batched_tokens: 64  # omnicfg: ignore[OC603] because this profile is only ever compiled
""",
    good="""\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 0
    max_num_seqs: 8
    max_num_batched_tokens: 64
""",
)


def check_suppression(judged: Judged) -> Iterator[Finding]:
    """All unused codes of a suppression at once."""
    suppression, unused = judged.suppression, judged.unused
    if not unused or suppression.problem or not suppression.reason:
        return
    where = f"on line {suppression.line}" if suppression.line else "in this file"
    names = listed([f"`{code.text}`" for code in unused])
    yield Finding(
        unused[0].mark if len(unused) < len(suppression.codes) else suppression.mark,
        f"there is no {names} {where} to suppress",
        "Remove it, or move it to the line that the finding names.",
        fix=_fix(suppression, judged),
    )


def _fix(suppression: Suppression, judged: Judged) -> Fix:
    left = [code.text for code in suppression.codes if code not in judged.unused]
    if not left:
        return Fix("Remove the suppression", (Edit(suppression.whole, ""),))
    names = listed([f"`{code.text}`" for code in judged.unused])
    return Fix(f"Remove {names} from the suppression", (Edit(suppression.list, ", ".join(left)),))
