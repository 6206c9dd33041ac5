"""Runs the examples of a Markdown page, and puts their output into it.

Of a page's fenced blocks, in their order:

``` ```yaml title="base.yaml" ```
    is written to that file;
``` ```console ```
    holds lines ``$ command`` (continued by lines ``> more``), each with the output below it that it has to give,
    standard error included;
``` ```python ```
    is a doctest.

One page is one working directory: a git repository that holds a copy of the shipped profiles. Everything else in a page
is only read, such as ``` ```sh ``` for commands that start servers.

``python -m tests.docs.examples README.md docs/*.md`` writes what the commands print now into the pages.
"""

from __future__ import annotations

import contextlib
import doctest
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<text>.*?)^ *```$", re.M | re.S
)
_END = "\x1e"  # printed after each command's output


@dataclass(frozen=True)
class Block:
    """A fenced block and where its text lies in the page."""

    language: str
    title: str | None
    text: str
    span: tuple[int, int]


@dataclass(frozen=True)
class Command:
    """A command as it is shown, line by line, and the output shown below it."""

    shown: str
    output: str

    @property
    def script(self) -> str:
        """What the shell runs."""
        return "\n".join(line[2:] for line in self.shown.splitlines())


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page."""
    return [
        Block(match["language"], match["title"], match["text"], match.span("text")) for match in _FENCE.finditer(page)
    ]


def commands(text: str) -> list[Command]:
    """The commands of a ``console`` block. Raises ``ValueError`` where it does not begin with one."""
    found: list[tuple[list[str], list[str]]] = []
    for line in text.splitlines(keepends=True):
        if line.startswith("$ "):
            found.append(([line], []))
        elif not found:
            raise ValueError(f"a console block begins with `$ command`, not with {line!r}")
        elif line.startswith("> ") and not found[-1][1]:
            found[-1][0].append(line)
        else:
            found[-1][1].append(line)
    return [Command("".join(shown), "".join(output)) for shown, output in found]


class Workspace:
    """The working directory of a page, with ``omnicfg`` on the path of its shell."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "work"
        self._bin = folder / "bin"
        self._bin.mkdir()
        launcher = self._bin / "omnicfg"
        launcher.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m omnicfg.cli "$@"\n')
        launcher.chmod(0o755)
        shutil.copytree(ROOT / "profiles", self.folder / "profiles")
        self.run(["git init -q .", "git add .", "git commit -q -m profiles"])

    def run(self, scripts: Sequence[str]) -> list[str]:
        """The output of each command of one shell; ``$?`` is that of the command before."""
        lines = [f"{script}\n_status=$?; printf '{_END}'; (exit $_status)\n" for script in scripts]
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-c", "".join(lines)],
            cwd=self.folder,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            check=False,
            timeout=120,
        )
        return done.stdout.split(_END)[: len(scripts)]

    def _environment(self) -> dict[str, str]:
        who = {"NAME": "Example", "EMAIL": "example@example.com", "DATE": "2026-01-01T00:00:00Z"}
        return {
            "PATH": f"{self._bin}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "HOME": str(self.folder.parent),
            "LC_ALL": "C.UTF-8",
            "GIT_CONFIG_NOSYSTEM": "1",
            **{f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in who.items()},
        }

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


@contextlib.contextmanager
def workspace() -> Iterator[Workspace]:
    with tempfile.TemporaryDirectory() as folder:
        yield Workspace(Path(folder))


def renewed(page: str, work: Workspace) -> str:
    """The page with the output that its commands give now."""
    made, position = "", 0
    for block in blocks(page):
        made += page[position : block.span[0]]
        made += _renewed_block(block, work)
        position = block.span[1]
    return made + page[position:]


def _renewed_block(block: Block, work: Workspace) -> str:
    if block.title is not None:
        work.write(block.title, block.text)
    if block.language != "console":
        return block.text
    shown = commands(block.text)
    outputs = work.run([command.script for command in shown])
    return "".join(command.shown + _whole_line(output) for command, output in zip(shown, outputs, strict=True))


def _whole_line(output: str) -> str:
    return output if not output or output.endswith("\n") else f"{output}\n"


def doctest_failures(page: str, name: str, work: Workspace) -> list[str]:
    """What the doctests of a page's ``python`` blocks complain about; names carry over from block to block."""
    text = "\n".join(block.text for block in blocks(page) if block.language == "python")
    test = doctest.DocTestParser().get_doctest(text, {}, name, name, 0)
    told: list[str] = []
    with contextlib.chdir(work.folder):
        doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=told.append)
    return told


def main() -> None:
    """Renew the pages named on the command line."""
    for name in sys.argv[1:]:
        path = Path(name)
        page = path.read_text(encoding="utf-8")
        with workspace() as work:
            new = renewed(page, work)
        if new != page:
            path.write_text(new, encoding="utf-8")
            sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
