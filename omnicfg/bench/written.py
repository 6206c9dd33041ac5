"""Where a report goes: files beside the measurements, and standard output."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from omnicfg.bench import tables
from omnicfg.bench.plots import draw
from omnicfg.files import make_directory, write_whole
from omnicfg.report.json import dumps


def write(folder: Path, report: Mapping[str, Any]) -> None:
    """``report.json``, ``plots/`` where matplotlib is there to draw them, and ``report.md`` that shows them."""
    make_directory(folder)
    write_whole(folder / "report.json", dumps(report))
    pictures: Sequence[Path] = ()
    try:
        pictures = draw(report, folder / "plots")
    except ModuleNotFoundError as error:
        print(f"omnicfg bench: no plots without `{error.name}`: `pip install 'omnicfg[bench]'`", file=sys.stderr)
    shown = [picture.relative_to(folder).as_posix() for picture in pictures if picture.suffix == ".svg"]
    write_whole(folder / "report.md", tables.markdown(report, shown))


def show(report: Mapping[str, Any], format: str) -> None:
    """The report on standard output."""
    from omnicfg.report.terminal import Style, has_colour, width_of

    if format == "json":
        sys.stdout.write(dumps(report))
    elif format == "markdown":
        sys.stdout.write(tables.markdown(report))
    else:
        sys.stdout.write(tables.text(report, Style(has_colour(sys.stdout)), width_of(sys.stdout)))
