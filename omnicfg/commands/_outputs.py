"""Where a report goes: ``--format NAME`` is printed, ``--format NAME:FILE`` written."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from omnicfg.errors import UsageError
from omnicfg.files import check_report, write_whole
from omnicfg.findings.review import Report
from omnicfg.report.formats import format_names, renderer


class Output(NamedTuple):
    """A format, and the file it goes to; ``None`` is standard output."""

    format: str
    file: Path | None


def outputs_of(asked: Sequence[str]) -> list[Output]:
    """The outputs that ``--format`` names. Raises :class:`UsageError` where they cannot all be made."""
    outputs = [_output(text) for text in asked]
    printed = [output.format for output in outputs if output.file is None]
    if len(printed) > 1:
        raise UsageError(
            f"{' and '.join(f'`{name}`' for name in printed)} cannot both be printed",
            f"Write all but one to files: `--format {printed[-1]}:FILE`.",
        )
    files = [output.file.resolve() for output in outputs if output.file is not None]
    for file in files:
        if files.count(file) > 1:
            raise UsageError(f"two formats cannot both be written to `{file.name}`", "Give each a file of its own.")
    return outputs


def _output(text: str) -> Output:
    name, colon, file = text.partition(":")
    if name not in format_names():
        from omnicfg.near import did_you_mean

        hint = did_you_mean(name, format_names()) or f"Formats: {', '.join(format_names())}."
        raise UsageError(f"there is no format `{name}`", hint)
    if not colon:
        return Output(name, None)
    if not file:
        raise UsageError(f"`--format {text}` names no file", f"`--format {name}:FILE`, or `--format {name}` to print.")
    check_report(Path(file))
    return Output(name, Path(file))


def put_out(report: Report, outputs: Sequence[Output]) -> None:
    """Write the files, each whole, then print what is printed."""
    for name, file in sorted(outputs, key=lambda output: output.file is None):
        render = renderer(name)
        if file is not None:
            write_whole(file, render(report, False, None))
        else:
            from omnicfg.report.terminal import has_colour, width_of

            sys.stdout.write(render(report, has_colour(sys.stdout), width_of(sys.stdout)))
