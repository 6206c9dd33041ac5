"""``omnicfg profiles``: the shipped library."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

from omnicfg.parser import Option

HELP = "List the shipped profiles."

FORMAT = Annotated[str, Option("--format", choices=("text", "json"), help="How to print them.")]


def run(format: FORMAT = "text") -> None:
    """Every profile with its pipeline, its stages, and what it is for."""
    from omnicfg.catalog.library import library

    entries = [_entry(name, path) for name, path in library().items()]
    if format == "json":
        from omnicfg.report.json import dumps

        sys.stdout.write(dumps(entries))
        return
    from omnicfg.report.table import Cell, render_table
    from omnicfg.report.terminal import Style, has_colour, width_of

    rows = [
        [Cell(entry["name"], "name"), entry["pipeline"], " ".join(entry["stages"]), entry["what"]] for entry in entries
    ]
    headers = ["profile", "pipeline", "stages", "what"]
    sys.stdout.write(render_table(rows, Style(has_colour(sys.stdout)), width_of(sys.stdout), headers=headers))


def _entry(name: str, path: Path) -> dict[str, Any]:
    from omnicfg.catalog.upstream import pipelines
    from omnicfg.compiler import load, pipeline_of

    key = pipeline_of(load(path))
    stages = [stage["model_stage"] for stage in pipelines()[key]["stages"]]
    return {"name": name, "pipeline": key, "stages": stages, "what": _what(path)}


def _what(path: Path) -> str:
    """The first sentence of the comment that a profile begins with."""
    words: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        text = line.lstrip("# ").strip()
        if not text.startswith("yaml-language-server:"):
            words.append(text)
    sentence, dot, _ = " ".join(words).partition(". ")
    return sentence + dot.strip()
