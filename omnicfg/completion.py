"""What a shell may complete after the words typed so far."""

from __future__ import annotations

from omnicfg.cli import command_module, command_names
from omnicfg.commands._options import limits_of
from omnicfg.errors import OmnicfgError
from omnicfg.parser import Argument, Option, Parameter, parameters


def candidates(words: list[str]) -> list[str]:
    """The completions of the last word, given the words before it; none where the shell should offer files."""
    *before, current = words or [""]
    return sorted(word for word in _possible(before, current) if word.startswith(current))


def _possible(before: list[str], current: str) -> list[str]:
    if not before:
        return [*command_names(), "--help", "--version"]
    try:
        command = command_module(before[0]).run
    except OmnicfgError:
        return []
    declared = [parameter for each in (command, *limits_of(command)) for parameter in parameters(each)]
    option = _option(before[-1], declared)
    if option is not None and not option.is_flag:
        return _words(option)
    if current.startswith("-"):
        return [flag for item in declared if isinstance(item.declared, Option) for flag in item.declared.flags]
    arguments = [item for item in declared if isinstance(item.declared, Argument)]
    position = len(_positionals(before[1:], declared))
    if position < len(arguments):
        return _words(arguments[position])
    return _words(arguments[-1]) if arguments and arguments[-1].many else []


def _option(word: str, declared: list[Parameter]) -> Parameter | None:
    return next((item for item in declared if isinstance(item.declared, Option) and word in item.declared.flags), None)


def _positionals(words: list[str], declared: list[Parameter]) -> list[str]:
    found: list[str] = []
    takes_value = False
    for word in words:
        option = _option(word, declared)
        if not takes_value and not word.startswith("-"):
            found.append(word)
        takes_value = option is not None and not option.is_flag
    return found


def _words(parameter: Parameter) -> list[str]:
    return list(parameter.declared.words()) if parameter.declared.words else []
