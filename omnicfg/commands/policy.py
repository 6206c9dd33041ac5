"""``omnicfg policy test``: a team's policies, tried on the examples that are listed beside them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from omnicfg.errors import UsageError
from omnicfg.parser import Argument, Option
from omnicfg.wording import counted

if TYPE_CHECKING:
    from omnicfg.policy.examples import Trial
    from omnicfg.policy.file import Policy

HELP = "Try the policies of your own on the examples beside them: `omnicfg policy test FILE`."

_ACTIONS: Final = ("test",)

ACTION = Annotated[str, Argument("ACTION", help="test: try the examples.", words=lambda: _ACTIONS)]
FILES = Annotated[list[Path], Argument("FILE", help="A policy file.")]
FORMAT = Annotated[str, Option("--format", choices=("text", "json"), help="How to print the outcome.")]


def run(
    action: ACTION,
    files: FILES = [],  # noqa: B006  # never changed
    format: FORMAT = "text",
) -> int:
    """Exit code: 0 where every example goes as it should, else 1. A policy file that is wrong is trouble."""
    if action not in _ACTIONS:
        file = action if Path(action).suffix else "FILE"
        hint = f"`omnicfg policy test {file}` tries the examples; `omnicfg validate --policy {file}` checks profiles."
        raise UsageError(f"`omnicfg policy` cannot `{action}`", hint)
    if not files:
        raise UsageError(
            "`omnicfg policy test` needs a policy file", "`omnicfg policy test policies.yaml`, for example."
        )
    from omnicfg.policy.evaluate import Policies
    from omnicfg.policy.examples import trials

    with Policies(files) as policies:
        tried = list(trials(policies))
        sys.stdout.write(_json(policies.policies, tried) if format == "json" else _text(policies.policies, tried))
    return int(any(trial.problem for trial in tried))


def _json(policies: Sequence[Policy], tried: Sequence[Trial]) -> str:
    from omnicfg.report.json import dumps

    return dumps(
        {
            "trials": [trial.to_dict() for trial in tried],
            "without_examples": [policy.id for policy in policies if not policy.examples],
        }
    )


def _text(policies: Sequence[Policy], tried: Sequence[Trial]) -> str:
    from omnicfg.report.terminal import Style, has_colour, paragraph, width_of

    style, width = Style(has_colour(sys.stdout)), width_of(sys.stdout)
    looks = {"ok   ": "good", "WRONG": "error"}
    lines = [paragraph(line, width) for line in _lines(policies, tried)]
    return "".join(style(looks.get(line[:5], ""), line[:5]) + line[5:] if line[:5] in looks else line for line in lines)


def _lines(policies: Sequence[Policy], tried: Sequence[Trial]) -> Iterator[str]:
    for policy in policies:
        own = [trial for trial in tried if trial.policy is policy]
        if not own:
            yield f"{policy.id}: no examples"
        for trial in own:
            word = "ok   " if trial.problem is None else "WRONG"
            example = trial.example
            shown = f"the profile at {example.mark}" if example.is_inline else example.profile
            told = "" if trial.problem is None else f": {trial.problem}"
            yield f"{word} {policy.id} {example.expected}: {shown} on {example.platform}{told}"
    wrong = sum(trial.problem is not None for trial in tried)
    of = f"{len(policies)} {'policy' if len(policies) == 1 else 'policies'}"
    yield f"{counted(len(tried), 'example')} of {of}, {wrong or 'none'} wrong."
