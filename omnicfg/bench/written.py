"""Where a report goes: files beside the measurements, and standard output."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from omnicfg.bench import tables
from omnicfg.bench.plots import FILES, draw
from omnicfg.files import check_writable, make_directory, write_whole
from omnicfg.report.json import dumps
from omnicfg.streams import note

_PLOTS: Final = "plots"


def write(folder: Path, report: Mapping[str, Any]) -> None:
    """``report.json``, ``plots/`` where matplotlib is there to draw them, and ``report.md`` that shows them."""
    drawn = _pictures(report)
    pictures = drawn or {}
    shown = [f"{_PLOTS}/{name}" for name in pictures if name.endswith(".svg")]
    contents: dict[Path, str | bytes] = {
        folder / "report.json": dumps(report),
        **{folder / _PLOTS / name: content for name, content in pictures.items()},
        folder / "report.md": tables.markdown(report, shown),
    }
    make_directory(folder / _PLOTS if pictures else folder)
    for path in contents:
        check_writable(path)
    for path, content in contents.items():
        write_whole(path, content)
    if drawn is not None:
        for name in FILES - drawn.keys():  # of a report that was here before
            (folder / _PLOTS / name).unlink(missing_ok=True)


def _pictures(report: Mapping[str, Any]) -> Mapping[str, bytes] | None:
    """The pictures; ``None`` where matplotlib is not there, or not able to, which is told."""
    try:
        return draw(report)
    except ModuleNotFoundError as error:
        note(f"omnicfg bench: no plots without `{error.name}`: `pip install 'omnicfg[bench]'`")
    except ImportError as error:
        note(f"omnicfg bench: no plots, as matplotlib does not start: {error}")
    return None


def show(report: Mapping[str, Any], format: str) -> None:
    """The report on standard output."""
    from omnicfg.report.terminal import Style, has_colour, width_of

    if format == "json":
        sys.stdout.write(dumps(report))
    elif format == "markdown":
        sys.stdout.write(tables.markdown(report))
    else:
        sys.stdout.write(tables.text(report, Style(has_colour(sys.stdout)), width_of(sys.stdout)))
