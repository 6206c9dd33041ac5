"""Where a report goes: files beside the measurements, and standard output."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omnicfg.bench import tables
from omnicfg.bench.plots import draw
from omnicfg.files import write_whole
from omnicfg.report.json import dumps


def write(folder: Path, report: Mapping[str, Any]) -> None:
    """``report.json``, ``report.md``, and ``plots/`` where matplotlib is there to draw them."""
    write_whole(folder / "report.json", dumps(report))
    write_whole(folder / "report.md", tables.markdown(report))
    try:
        draw(report, folder / "plots")
    except ModuleNotFoundError as error:
        print(f"omnicfg bench: no plots without `{error.name}`: pip install 'omnicfg[bench]'", file=sys.stderr)


def show(report: Mapping[str, Any], format: str) -> None:
    """The report on standard output."""
    from omnicfg.report.terminal import Style, has_colour, width_of

    if format == "json":
        sys.stdout.write(dumps(report))
    elif format == "markdown":
        sys.stdout.write(tables.markdown(report))
    else:
        sys.stdout.write(tables.text(report, Style(has_colour(sys.stdout)), width_of(sys.stdout)))
