"""``validate --fix``, ``--diff`` and ``--unsafe-fixes``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from omnicfg.commands._outputs import Output
from omnicfg.errors import UsageError
from omnicfg.findings.review import Report
from omnicfg.parser import Option
from omnicfg.wording import counted

if TYPE_CHECKING:
    from omnicfg.fixes.fix import Mended

FIX = Annotated[bool, Option("--fix", help="Write the safe fixes of the findings into the files that are named.")]
DIFF = Annotated[bool, Option("--diff", help="Print what --fix would write; nothing is written.")]
UNSAFE = Annotated[bool, Option("--unsafe-fixes", help="With --fix or --diff: also fixes that change what runs.")]


def check_fixing(fix: bool, diff: bool, unsafe: bool, outputs: Iterable[Output]) -> None:
    """Raises :class:`UsageError` for options that make no sense together."""
    if unsafe and not (fix or diff):
        raise UsageError("`--unsafe-fixes` alone fixes nothing", "Add `--fix`, or `--diff` to see what they are.")
    if diff and any(output.file is None for output in outputs):
        raise UsageError(
            "`--diff` and a report cannot both be printed", "Write the report to a file: `--format NAME:FILE`."
        )


def fixed(review: Callable[[], Report], files: Iterable[Path], unsafe: bool) -> None:
    """Write the fixes, and say on standard error what they were."""
    from omnicfg.fixes.fix import mend, named_files

    mended = mend(lambda: review().findings, named_files(files), unsafe=unsafe)
    mended.write()
    _tell(mended, "fixed")


def shown(review: Callable[[], Report], files: Iterable[Path], unsafe: bool) -> bool:
    """Print what the fixes would change; whether that is anything."""
    from omnicfg.fixes.fix import mend, named_files
    from omnicfg.report.patch import render_patch
    from omnicfg.report.terminal import has_colour

    mended = mend(lambda: review().findings, named_files(files), unsafe=unsafe)
    sys.stdout.write(render_patch(mended.changes, colour=has_colour(sys.stdout)))
    _tell(mended, "would be fixed")
    return bool(mended.changes)


def _tell(mended: Mended, what: str) -> None:
    from omnicfg.report.terminal import one_line

    where = f" in {counted(len(mended.changes), 'file')}" if mended.findings else ""
    lines = [f"{counted(mended.findings, 'finding') if mended.findings else 'No findings'} {what}{where}."]
    if mended.unsafe:
        lines.append(f"{mended.unsafe} more can be fixed with `--unsafe-fixes`, which changes what runs.")
    for file, findings in sorted(mended.elsewhere.items()):
        left = f"{counted(findings, 'finding')} with a fix left"
        lines.append(f"{one_line(file)} is not among the files that are named: {left}.")
    print("\n".join(lines), file=sys.stderr)
