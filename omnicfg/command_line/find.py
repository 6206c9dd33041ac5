"""The `vllm serve` command of a text, a shell script, a Dockerfile or a compose file."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final, NoReturn

from omnicfg.command_line.shell import Word, commands
from omnicfg.errors import UsageError
from omnicfg.passes.read import load_text, read_text
from omnicfg.tree import Layer, LayerKind, Mapping, Mark, Node, Scalar, Sequence

_PROGRAMS: Final = ("vllm", "vllm-omni")
_SERVER: Final = "vllm_omni.entrypoints.openai.api_server"  # run as a module, it is always vLLM-Omni's
_INSTRUCTION: Final = r"\s*(CMD|ENTRYPOINT|RUN|ENV|ARG)\s+"
_LAYER: Final = Layer(LayerKind.PROFILE, "compose")


def of_text(text: str) -> list[Word]:
    """The words after ``serve`` of a command given on the command line. Raises :class:`UsageError`."""
    line = text.replace("\\\n", "  ").replace("\n", " ")
    found = [
        words for command in commands(line, "--command", bare_json=True) if (words := _after_serve(command)) is not None
    ]
    return _only(found, "--command")


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
    if colon and number.isdecimal() and len(number) < 9 and not path.exists():
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


def _after_serve(command: list[Word]) -> list[Word] | None:
    """The words after ``serve``, wherever the program stands (behind ``exec``, ``nohup`` or ``docker run ...``)."""
    for at, word in enumerate(command[:-1]):
        if word.text == "-m" and command[at + 1].text == _SERVER:
            return [command[at + 1]._replace(text="--omni"), *_without_redirections(command[at + 2 :])]
        program = word.text.rpartition("/")[2]
        is_module = word.text == "-m" and command[at + 1].text in ("vllm_omni", "vllm_omni.entrypoints.cli.main")
        step = 2 if is_module else 1
        if (program in _PROGRAMS or is_module) and len(command) > at + step and command[at + step].text == "serve":
            return _without_redirections(command[at + step + 1 :])
    return None


def _without_redirections(words: list[Word]) -> list[Word]:
    kept: list[Word] = []
    rest = iter(words)
    for word in rest:
        match = re.match(r"(?:\d|&)?(?:>>?|<)(.*)", word.text)
        if match is None:
            kept.append(word)
        elif not match[1]:
            next(rest, None)
    return kept


def _of_shell(text: str, shown: str) -> list[list[Word]]:
    return [words for command in commands(text, shown) if (words := _after_serve(command)) is not None]


def _of_dockerfile(text: str, shown: str) -> list[list[Word]]:
    """Each instruction's command; an ``ENTRYPOINT`` of words goes before the ``CMD`` that follows it."""
    variables: dict[str, str] = {}
    entry: list[Word] = []
    found: list[list[Word]] = []
    for line, instruction in _instructions(text):
        match = re.match(_INSTRUCTION, instruction)
        if match is None:
            continue
        body = instruction[match.end() :]
        if match[1] in ("ENV", "ARG"):
            commands(f"export {body}", shown, variables=variables)
            continue
        words = _exec_form(body, shown, line)
        parsed = [words] if words else commands(body, shown, line=line, variables=variables)
        if match[1] == "ENTRYPOINT":
            entry = parsed[0] if parsed else []
        for command in parsed:
            whole = command if match[1] != "CMD" else [*entry, *command]
            served = _after_serve(whole)
            if served is not None:
                found = [*found[: -1 if match[1] == "CMD" and entry and found else len(found)], served]
    return found


def _instructions(text: str) -> list[tuple[int, str]]:
    """The lines of a Dockerfile with their continuations, by the number of their first."""
    found: list[tuple[int, str]] = []
    open_line = False
    for number, line in enumerate(text.split("\n"), start=1):
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
        served = _after_serve(words)
        if served is not None:
            found.append(served)
    return found


def _compose_words(node: Node | None, shown: str) -> list[Word]:
    if isinstance(node, Sequence):
        scalars = [item for item in node.items if isinstance(item, Scalar)]
        return [Word(str(item.value if item.text is None else item.text), item.mark) for item in scalars]
    if isinstance(node, Scalar) and isinstance(node.value, str):
        parsed = commands(node.value.replace("\n", " "), shown)
        return [Word(word.text, node.mark, word.unknown) for command in parsed for word in command]
    return []
