"""What can be said of a page's blocks without running them: none escapes, and what is not run could be.

A block of commands that no test runs names its reason (:data:`tests.docs.examples.NOT_RUN`). It is read all the same:
the shell takes it, and the commands, options, make targets, modules and extras that it names exist.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import subprocess
import tomllib
from collections.abc import Callable, Iterator, Mapping
from textwrap import dedent
from typing import Final

from markdown_it import MarkdownIt
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from omnicfg.cli import command_module
from omnicfg.errors import UsageError
from omnicfg.parser import parse
from tests.docs.examples import NEEDS, NOT_RUN, ROOT, Block, blocks

# A language that is none of these could be one more name for a shell.
DATA: Final = frozenset({"yaml", "json", "toml", "csv", "lua", "text", "xml", "mermaid", "dot"})
COMMANDS: Final = frozenset({"console", "sh", "python"})

_MAKE = re.compile(r"^([a-z-]+):", re.M)
_EXTRAS = re.compile(r"^(?:omnicfg|\.)\[(?P<names>[^\]]+)\]")
# Words that stand for what the reader puts in.
_LEFT_OUT: Final = "..."


def complaints(page: str) -> Iterator[str]:
    """Why a page's blocks are not all run, or read: one sentence for each."""
    found = blocks(page)
    read = MarkdownIt().parse(page)
    if [token.content for token in read if token.type == "fence"] != [dedent(block.text) for block in found]:
        yield 'a fence is not "```language" with attributes in quotes, so its block is not seen'
    for token in read:
        if token.type == "code_block":
            yield f"code without a fence is not seen: {token.content!r}"
    for block in found:
        yield from _of(block)


def _of(block: Block) -> Iterator[str]:
    reason = block.attributes.get("not-run")
    if unknown := block.attributes.keys() - {"title", "needs", "serves", "not-run"}:
        yield f"{unknown} is no attribute"
    if reason is not None and reason not in NOT_RUN:
        yield f"{reason!r} is no reason not to be run; reasons are {', '.join(NOT_RUN)}"
    if (needs := block.attributes.get("needs")) is not None and needs not in NEEDS:
        yield f"{needs!r} is nothing that a block can need: {', '.join(sorted(NEEDS))}"
    if block.language not in DATA | COMMANDS:
        yield f"{block.language!r} is no language of our pages: {', '.join(sorted(DATA | COMMANDS))}"
    elif block.language == "python" and reason != "signatures":
        yield from _python(block)
    elif block.language == "sh" and block.title is None:
        yield from _shell(block)
    elif block.language in _READ:
        yield from _data(block)
    elif block.language == "text" and re.search(r"^\$ ", block.text, re.M):
        yield "commands stand in a `console` block, which is run"


def _python(block: Block) -> Iterator[str]:
    if ">>> " in block.text:
        return
    if not {"title", "not-run"} & block.attributes.keys():
        yield 'Python without `>>> ` is not run: it has a `title`, or a reason in `not-run="..."`'
    try:
        compile(block.text, "page", "exec")
    except SyntaxError as error:
        yield f"no Python: {error}"


def _shell(block: Block) -> Iterator[str]:
    if not {"serves", "not-run"} & block.attributes.keys() and block.needs != "checkout":
        yield 'commands in a `sh` block are not run: make it `console`, or say why in `not-run="..."`'
    done = subprocess.run(["bash", "-n"], input=block.text, capture_output=True, encoding="utf-8", check=False)
    if done.returncode:
        yield f"no shell: {done.stderr}"
        return
    for line in block.text.replace("\\\n", " ").splitlines():
        yield from _command(shlex.split(line, comments=True))


def _command(words: list[str]) -> Iterator[str]:
    match words:
        case ["omnicfg", name, *rest]:
            yield from _omnicfg(name, rest)
        case ["make", *targets]:
            known = _MAKE.findall((ROOT / "Makefile").read_text(encoding="utf-8"))
            yield from (f"the Makefile has no {target!r}" for target in targets if target not in known)
        case ["python", "-m", module, *_] if module.partition(".")[0] in ("omnicfg", "tests", "benchmarks"):
            if importlib.util.find_spec(module) is None:
                yield f"there is no module {module}"
        case ["pip", "install", *packages]:
            yield from (f"there is no extra {name!r}" for name in _extras(packages) if name not in _known_extras())


def _omnicfg(name: str, words: list[str]) -> Iterator[str]:
    try:
        module = command_module(name)
        parse(module.run, f"omnicfg {name}", module.HELP, [word for word in words if word != _LEFT_OUT])
    except UsageError as error:
        if _LEFT_OUT not in words:
            yield f"`omnicfg {name}` does not take that: {error}"


def _extras(packages: list[str]) -> Iterator[str]:
    for package in packages:
        if match := _EXTRAS.match(package):
            yield from match["names"].split(",")


def _known_extras() -> Mapping[str, object]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras: Mapping[str, object] = project["optional-dependencies"]
    return extras


def _yaml(text: str) -> None:
    for _document in YAML(typ="safe", pure=True).load_all(text):
        pass


_READ: Final[Mapping[str, Callable[[str], object]]] = {"yaml": _yaml, "json": json.loads, "toml": tomllib.loads}


def _data(block: Block) -> Iterator[str]:
    try:
        _READ[block.language](block.text)
    except (YAMLError, ValueError) as error:
        yield f"no {block.language}: {error}"
