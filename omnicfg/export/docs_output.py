"""What ``omnicfg`` prints, for pages that show it: the command itself is run, in a folder of its own."""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path


def output_of(words: Sequence[str], files: Mapping[str, bytes]) -> str:
    """The output of ``omnicfg WORDS`` in a folder that holds ``files``, what goes to standard error included."""
    from omnicfg.cli import run
    from omnicfg.errors import OmnicfgError
    from omnicfg.report.text import render_errors

    printed = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for name, content in files.items():
            Path(name).write_bytes(content)
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            try:
                run(list(words))
            except OmnicfgError as error:
                printed.write(render_errors(error))
    return printed.getvalue()


def console(words: Sequence[str], files: Mapping[str, bytes]) -> str:
    """A fenced block with the command and its output."""
    return fenced("console", f"$ omnicfg {' '.join(words)}\n{output_of(words, files)}")


def fenced(language: str, text: str) -> str:
    """A fenced block in Markdown."""
    return f"```{language}\n{text.rstrip()}\n```\n"


def table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown, from cells that are Markdown themselves."""
    lines = [headers, ["---"] * len(headers), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)
