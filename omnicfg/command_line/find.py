"""The `vllm serve` command of a text, a shell script, a Dockerfile or a compose file."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Final, NoReturn

from omnicfg.command_line.shell import Word, interpolated, script
from omnicfg.errors import UsageError
from omnicfg.passes.read import load_text, read_text
from omnicfg.tree import Layer, LayerKind, Mapping, Mark, Node, Scalar, Sequence
from omnicfg.wording import is_number

_PROGRAMS: Final = ("vllm", "vllm-omni")
_SERVER: Final = "vllm_omni.entrypoints.openai.api_server"  # run as a module, it is always vLLM-Omni's
_MODULES: Final = ("vllm", "vllm.entrypoints.cli.main", "vllm_omni", "vllm_omni.entrypoints.cli.main")
_SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ash"})
_REMOTE: Final = frozenset({"ssh", "su", "tmux"})  # their last word is a command
_INSTRUCTION: Final = re.compile(r"\s*(CMD|ENTRYPOINT|RUN|ENV|ARG)\s+", re.IGNORECASE)
_MAX_SHELLS: Final = 4
_LAYER: Final = Layer(LayerKind.PROFILE, "compose")


def of_text(text: str) -> list[Word]:
    """The words after ``serve`` of a command given on the command line. Raises :class:`UsageError`."""
    line = text.replace("\\\n", "  ").replace("\n", " ")
    read = script(line, "--command", bare_json=True)
    if read.open_quote is not None:
        _refuse(f"a quote of `--command` is never closed: the one in column {read.open_quote}", "Close it.")
    return _only(_servers(read.commands), "--command")


def of_file(path: Path) -> list[Word]:
    """The words after ``serve`` of the one server that a file starts; ``FILE:LINE`` chooses among several.

    Raises :class:`~omnicfg.errors.OmnicfgError`.
    """
    path, line = _with_line(path)
    text = load_text(path, str(path))
    name = path.name.lower()
    if path.suffix in (".yaml", ".yml"):
        found = _of_compose(text, str(path))
    elif "dockerfile" in name or "containerfile" in name:
        found = _of_dockerfile(text, str(path))
    else:
        found = _of_shell(text, str(path))
    if line is not None:
        found = [words for words in found if _spans(words, line)]
    return _only(found, str(path))


def _with_line(path: Path) -> tuple[Path, int | None]:
    name, colon, number = str(path).rpartition(":")
    if colon and is_number(number, 8) and not path.exists():
        return Path(name), int(number)
    return path, None


def _spans(words: list[Word], line: int) -> bool:
    lines = [word.mark.line for word in words]
    return bool(lines) and min(lines) <= line <= max(lines)


def _only(found: list[list[Word]], shown: str) -> list[Word]:
    if len(found) == 1:
        return found[0]
    if not found:
        _refuse(f"{shown} starts no server: it has no `vllm serve ...`", "Give the whole command, `vllm` included.")
    lines = ", ".join(str(words[0].mark.line) for words in found if words)
    _refuse(f"{shown} starts {len(found)} servers, on lines {lines}", f"Choose one by its line: `{shown}:LINE`.")


def _refuse(message: str, help: str) -> NoReturn:
    raise UsageError(message, help)


def _servers(commands: list[list[Word]], variables: dict[str, str] | None = None, depth: int = 0) -> list[list[Word]]:
    """The words after ``serve`` of every command that starts a server, those that a shell is handed included."""
    found: list[list[Word]] = []
    for command in commands:
        served = _after_serve(command)
        if served is not None:
            found.append(served)
            continue
        text = _handed_to_shell(command)
        if text is not None and depth < _MAX_SHELLS:
            inner = script(text.text, text.mark.file, variables=dict(variables or {})).commands
            placed = [[word.moved(text.mark) for word in words] for words in inner]
            found += _servers(placed, variables, depth + 1)
    return found


def _handed_to_shell(command: list[Word]) -> Word | None:
    """The script of ``bash -c SCRIPT`` or ``eval``, and what ``ssh`` and its like are told to run."""
    programs: set[str] = set()
    for at, word in enumerate(command[:-1]):
        if word.text == "eval":
            return command[at + 1]._replace(text=" ".join(each.text for each in command[at + 1 :]))
        if programs & _SHELLS and re.fullmatch(r"-[a-z]*c", word.text):
            return command[at + 1]
        programs.add(word.text.rpartition("/")[2])
    return command[-1] if programs & _REMOTE else None


def _after_serve(command: list[Word]) -> list[Word] | None:
    """The words after ``serve``, wherever the program stands (behind ``exec``, ``nohup`` or ``docker run ...``)."""
    for at, word in enumerate(command[:-1]):
        if word.text == "-m" and command[at + 1].text == _SERVER:
            return [command[at + 1]._replace(text="--omni"), *_without_redirections(command[at + 2 :])]
        program = word.text.rpartition("/")[2]
        is_module = word.text == "-m" and command[at + 1].text in _MODULES
        step = 2 if is_module else 1
        if (program in _PROGRAMS or is_module) and len(command) > at + step and command[at + step].text == "serve":
            return _without_redirections(command[at + step + 1 :])
    return None


def _without_redirections(words: list[Word]) -> list[Word]:
    kept: list[Word] = []
    rest = iter(words)
    for word in rest:
        match = re.match(r"(?:\d|&)?(?:>>?|<)(.*)", word.text)
        if match is None or word.text in word.unknown:
            kept.append(word)
        elif not match[1]:
            next(rest, None)
    return kept


def _of_shell(text: str, shown: str) -> list[list[Word]]:
    """The servers of a script; where it starts none itself, those of the scripts that it writes."""
    variables: dict[str, str] = {}
    read = script(text, shown, variables=variables)
    found = _servers(read.commands, variables)
    if not found:
        for line, document in read.documents:
            found += _servers(script(document, shown, line=line, variables=dict(variables)).commands, variables)
    return found


def _of_dockerfile(text: str, shown: str) -> list[list[Word]]:
    """Each instruction's command; an ``ENTRYPOINT`` of words goes before the ``CMD`` that follows it."""
    variables: dict[str, str] = {}
    entry: list[Word] = []
    found: list[list[Word]] = []
    for line, instruction in _instructions(text):
        match = _INSTRUCTION.match(instruction)
        if match is None:
            continue
        name, body = match[1].upper(), instruction[match.end() :]
        if name in ("ENV", "ARG"):
            script(_exported(body), shown, variables=variables)
            continue
        words = _exec_form(body, shown, line)
        column = match.end() + 1
        parsed = [words] if words else script(body, shown, line=line, column=column, variables=variables).commands
        if name == "ENTRYPOINT":
            entry = parsed[0] if parsed else []
        for command in parsed:
            whole = command if name != "CMD" else [*entry, *command]
            for served in _servers([whole], variables):
                found = [*found[: -1 if name == "CMD" and entry and found else len(found)], served]
    return found


def _exported(body: str) -> str:
    """``ENV NAME value``, the older form, and ``ENV NAME=value`` as a shell has them."""
    older = re.match(r"([A-Za-z_]\w*)[ \t]+(.*)", body, re.DOTALL)
    return f"export {body}" if older is None else f"export {older[1]}={shlex.quote(older[2].strip())}"


def _instructions(text: str) -> list[tuple[int, str]]:
    """The lines of a Dockerfile with their continuations, by the number of their first."""
    found: list[tuple[int, str]] = []
    open_line = False
    for number, line in enumerate(text.split("\n"), start=1):
        if open_line and line.lstrip().startswith("#"):
            found[-1] = (found[-1][0], f"{found[-1][1]}\n\\")  # a comment in between is taken out
            continue
        if open_line:
            found[-1] = (found[-1][0], f"{found[-1][1]}\n{line}")
        else:
            found.append((number, line))
        open_line = line.rstrip().endswith("\\")
    return found


def _exec_form(body: str, shown: str, line: int) -> list[Word]:
    try:
        value = json.loads(body.replace("\\\n", "\n").replace("\\\r\n", "\n"))
    except (ValueError, RecursionError):
        return []
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        return []
    return [Word(word, Mark(shown, line, 1, line, 1)) for word in value]


def _of_compose(text: str, shown: str) -> list[list[Word]]:
    """The servers of a compose file: each service's ``entrypoint`` and ``command``."""
    document = read_text(text, _LAYER, shown)
    services = document.items.get("services")
    if not isinstance(services, Mapping):
        return []
    found = []
    for service in services.items.values():
        if not isinstance(service, Mapping):
            continue
        words = [*_compose_words(service.get("entrypoint"), shown), *_compose_words(service.get("command"), shown)]
        found += _servers([words])
    return found


def _compose_words(node: Node | None, shown: str) -> list[Word]:
    if isinstance(node, Sequence):
        scalars = [item for item in node.items if isinstance(item, Scalar)]
        return [interpolated(str(item.value if item.text is None else item.text), item.mark) for item in scalars]
    if isinstance(node, Scalar) and isinstance(node.value, str):
        line = node.value.replace("\\\n", " ").replace("\n", " ").replace("$$", "\\$")
        parsed = script(line, shown).commands
        return [Word(word.text, node.mark, word.unknown) for command in parsed for word in command]
    return []
