"""Runs the examples of a Markdown page, and puts their output into it.

Of a page's fenced blocks, in their order:

``` ```yaml title="base.yaml" ```
    is written to that file, whatever its language;
``` ```console ```
    holds lines ``$ command`` (continued by lines ``> more``), each with the output below it that it has to give,
    standard error included;
``` ```console needs="vllm" ```
    the same, where vLLM is installed;
``` ```sh needs="checkout" ``` and ``` ```console needs="checkout" ```
    commands that change a checkout: they are run in a copy of this one, and each has to succeed;
``` ```sh serves="http://127.0.0.1:8091/health" ```
    starts a server, which has to answer there before the page goes on, and to end cleanly after the page's last block;
``` ```python ```
    is a doctest;
``` ```sh not-run="network" ```
    is only read (`tests.docs.reading`), for one of the reasons in :data:`NOT_RUN`.

One page is one working directory: a git repository that holds a copy of the shipped profiles.

``python -m tests.docs.examples README.md docs/*.md`` writes what the commands print now into the pages; ``--has=vllm``
and ``--has=checkout`` run those that need it, too.
"""

from __future__ import annotations

import argparse
import contextlib
import doctest
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT = Path(__file__).resolve().parents[2]

# Why a block of commands is not run, in the words of `not-run="..."`.
NOT_RUN: Final[Mapping[str, str]] = {
    "network": "fetches packages or pages from the network",
    "gpu": "needs GPUs, and a checkpoint of that model",
    "server": "asks a server of the reader's, or starts one until the reader ends it",
    "editor": "is for an editor or a shell that somebody sits in front of",
    "place": "prints a folder of the reader's machine",
    "measures": "measures for minutes, and prints what this machine can do",
    "checkout": "sets up a checkout and runs its tests, as .ci/run does, or makes its data anew",
    "signatures": "is no program but what the code declares, printed from it",
}
# What a block can need, in the words of `needs="..."`.
NEEDS: Final = frozenset({"vllm", "checkout"})

_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)(?P<attributes>(?: [a-z-]+=\"[^\"]+\")*)\n(?P<text>.*?)^ *```$", re.M | re.S
)
_ATTRIBUTE = re.compile(r' (?P<name>[a-z-]+)="(?P<value>[^"]+)"')
_HANDED_ON: Final = ("OMNICFG_UPSTREAM_DEPLOY",)
_ANSWERS_S: Final = 600.0
_ENDS_S: Final = 180.0
_END = "\x1e"  # printed after each command's output


@dataclass(frozen=True)
class Block:
    """A fenced block and where its text lies in the page."""

    language: str
    attributes: Mapping[str, str]
    text: str
    span: tuple[int, int]

    @property
    def title(self) -> str | None:
        """The file that the block is written to."""
        return self.attributes.get("title")

    @property
    def needs(self) -> str | None:
        """What has to be there to run it, beyond the page's own folder: one of :data:`NEEDS`."""
        return "vllm" if "serves" in self.attributes else self.attributes.get("needs")


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
        Block(match["language"], _attributes(match["attributes"]), match["text"], match.span("text"))
        for match in _FENCE.finditer(page)
    ]


def _attributes(text: str) -> dict[str, str]:
    return {match["name"]: match["value"] for match in _ATTRIBUTE.finditer(text)}


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
    """The working directory of a page, with ``omnicfg`` on the path of its shell: this one, or that of a copy."""

    def __init__(self, folder: Path, *, checkout: bool = False) -> None:
        self.folder = folder / "work"
        self._code = self.folder if checkout else ROOT
        self._bin = folder / "bin"
        self._bin.mkdir()
        self._servers: list[subprocess.Popen[bytes]] = []
        for name, arguments in (("omnicfg", "-m omnicfg.cli "), ("python", "")):
            launcher = self._bin / name
            launcher.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments}"$@"\n')
            launcher.chmod(0o755)
        for name in _tracked() if checkout else _tracked("profiles"):
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.folder / name)
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
            timeout=600,
        )
        return done.stdout.split(_END)[: len(scripts)]

    def succeed(self, script: str) -> None:
        """Run a script. Raises ``RuntimeError``, with its output, where a command of it fails."""
        output, status = self.run([f"(set -e\n{script}) 2>&1; printf '%s' $? > ../status", "cat ../status"])
        if status != "0":
            raise RuntimeError(f"{script}ended with {status}:\n{output}")

    def serve(self, command: str, url: str) -> None:
        """Start a server and wait until it answers. Raises ``RuntimeError``, with its log, where it does not."""
        log = self.folder.parent / f"server-{len(self._servers)}.log"
        with log.open("wb") as file:
            server = subprocess.Popen(
                shlex.split(command, comments=True),
                cwd=self.folder,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        self._servers.append(server)
        end = time.monotonic() + _ANSWERS_S
        while not _answers(url):
            if server.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"`{command}` does not answer at {url}:\n{log.read_text(errors='replace')[-4000:]}")
            time.sleep(0.5)

    def stop(self) -> list[int]:
        """End the servers; their exit statuses."""
        for server in self._servers:
            server.send_signal(signal.SIGTERM)
        return [_status(server) for server in self._servers]

    def _environment(self) -> dict[str, str]:
        who = {"NAME": "Example", "EMAIL": "example@example.com", "DATE": "2026-01-01T00:00:00Z"}
        return {
            "PATH": f"{self._bin}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(self._code),
            "HOME": str(self.folder.parent),
            "LC_ALL": "C.UTF-8",
            "GIT_CONFIG_NOSYSTEM": "1",
            **{name: os.environ[name] for name in _HANDED_ON if name in os.environ},
            **{f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in who.items()},
        }

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _tracked(*paths: str) -> list[str]:
    """The files of the repository that are committed, or could be."""
    words = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *paths]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, encoding="utf-8", check=True)
    return [name for name in done.stdout.splitlines() if (ROOT / name).is_file()]


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _status(server: subprocess.Popen[bytes]) -> int:
    try:
        return server.wait(_ENDS_S)
    except subprocess.TimeoutExpired:
        server.kill()
        return server.wait()


@contextlib.contextmanager
def workspace(*, checkout: bool = False) -> Iterator[Workspace]:
    """A working directory with the shipped profiles, or a whole checkout, in it.

    Its servers end cleanly, or ``RuntimeError`` says that they did not.
    """
    with tempfile.TemporaryDirectory() as folder:
        work = Workspace(Path(folder), checkout=checkout)
        try:
            yield work
        finally:
            statuses = work.stop()
        if any(statuses):
            raise RuntimeError(f"servers ended with the statuses {statuses}")


def renewed(page: str, work: Workspace, has: str | None = None) -> str:
    """The page with the output that its commands give now. What needs something else than ``has`` stays as it is.

    Raises ``RuntimeError`` where a command fails that has to succeed.
    """
    made, position = "", 0
    for block in blocks(page):
        made += page[position : block.span[0]]
        made += _renewed_block(block, work) if block.needs in (None, has) else block.text
        position = block.span[1]
    return made + page[position:]


def _renewed_block(block: Block, work: Workspace) -> str:
    if block.title is not None:
        work.write(block.title, block.text)
    if "serves" in block.attributes:
        work.serve(block.text, block.attributes["serves"])
    if block.language == "sh" and block.needs == "checkout":
        work.succeed(block.text)
    if block.language != "console":
        return block.text
    shown = commands(block.text)
    outputs = work.run([command.script for command in shown])
    return "".join(command.shown + _whole_line(output) for command, output in zip(shown, outputs, strict=True))


def _whole_line(output: str) -> str:
    return output if not output or output.endswith("\n") else f"{output}\n"


def is_doctest(block: Block) -> bool:
    """Whether a block is Python with its results, and no file or program."""
    return block.language == "python" and not {"title", "not-run"} & block.attributes.keys()


def doctest_failures(page: str, name: str, work: Workspace) -> list[str]:
    """What the doctests of a page's ``python`` blocks complain about; names carry over from block to block."""
    text = "\n".join(block.text for block in blocks(page) if is_doctest(block))
    test = doctest.DocTestParser().get_doctest(text, {}, name, name, 0)
    told: list[str] = []
    with contextlib.chdir(work.folder):
        doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=told.append)
    return told


def main() -> None:
    """Renew the pages named on the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.docs.examples", description="Writes what the commands of pages print now into the pages."
    )
    parser.add_argument("pages", metavar="PAGE", nargs="+", type=Path, help="a Markdown file")
    parser.add_argument("--has", choices=("vllm", "checkout"), help="also run the examples that need it")
    options = parser.parse_args()
    for path in options.pages:
        page = path.read_text(encoding="utf-8")
        with workspace(checkout=options.has == "checkout") as work:
            new = renewed(page, work, options.has)
        if new != page:
            path.write_text(new, encoding="utf-8")
            sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
