"""Where a report goes: files beside the measurements, and standard output."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from omnicfg.bench import tables
from omnicfg.bench.plots import draw
from omnicfg.files import make_directory, write_whole
from omnicfg.report.json import dumps
from omnicfg.streams import note

_PLOTS: Final = "plots"


def write(folder: Path, report: Mapping[str, Any]) -> None:
    """``report.json``, ``plots/`` where matplotlib is there to draw them, and ``report.md`` that shows them."""
    pictures = _pictures(report)
    make_directory(folder / _PLOTS if pictures else folder)
    write_whole(folder / "report.json", dumps(report))
    for name, content in pictures.items():
        write_whole(folder / _PLOTS / name, content)
    shown = [f"{_PLOTS}/{name}" for name in pictures if name.endswith(".svg")]
    write_whole(folder / "report.md", tables.markdown(report, shown))


def _pictures(report: Mapping[str, Any]) -> Mapping[str, bytes]:
    """The pictures; none where matplotlib is not there, or not able to, which is told."""
    try:
        return draw(report)
    except ModuleNotFoundError as error:
        note(f"omnicfg bench: no plots without `{error.name}`: `pip install 'omnicfg[bench]'`")
    except ImportError as error:
        note(f"omnicfg bench: no plots, as matplotlib does not start: {error}")
    return {}


def show(report: Mapping[str, Any], format: str) -> None:
    """The report on standard output."""
    from omnicfg.report.terminal import Style, has_colour, width_of

    if format == "json":
        sys.stdout.write(dumps(report))
    elif format == "markdown":
        sys.stdout.write(tables.markdown(report))
    else:
        sys.stdout.write(tables.text(report, Style(has_colour(sys.stdout)), width_of(sys.stdout)))
