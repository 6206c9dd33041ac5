"""A command's function → its command line.

A parameter is declared by its annotation: ``Annotated[str, Argument(...)]`` or ``Annotated[bool, Option("--flag")]``.
``str``, ``int``, ``float``, ``Path``, ``bool``, lists of them and ``| None`` are understood. It is argparse below,
because that is a tenth of what a larger framework takes to start.
"""

from __future__ import annotations

import argparse
import os
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NoReturn

from omnicfg.errors import UsageError
from omnicfg.near import did_you_mean

Words = Callable[[], Iterable[str]]
_REQUIRED: Final = object()


class Argument:
    """A word given by its position. ``words`` gives the values that a shell completes."""

    def __init__(self, metavar: str, *, help: str, words: Words | None = None) -> None:
        self.metavar = metavar
        self.help = help
        self.words = words


class Option:
    """A word given by name.

    ``choices`` are the only values allowed, ``min`` and ``max`` the bounds of a number; ``words`` gives the values
    that a shell completes; ``envvar`` names the environment variable that stands in where the option is left out.
    """

    def __init__(
        self,
        *flags: str,
        help: str,
        metavar: str | None = None,
        choices: Sequence[str] = (),
        words: Words | None = None,
        envvar: str | None = None,
        min: int | None = None,
        max: int | None = None,
    ) -> None:
        self.flags = flags
        self.help = help
        self.metavar = metavar
        self.choices = tuple(choices)
        self.words = words or (lambda: self.choices)
        self.envvar = envvar
        self.min = min
        self.max = max

    def check(self, value: Any) -> None:
        """Raises :class:`UsageError` for a value that the option does not allow."""
        if value is None:
            return
        if self.choices and value not in self.choices:
            hint = did_you_mean(value, self.choices) or f"One of: {', '.join(self.choices)}."
            raise UsageError(f"`{self.flags[0]}` cannot be `{value}`", hint)
        if (self.min is not None and value < self.min) or (self.max is not None and value > self.max):
            raise UsageError(f"`{self.flags[0]}` is {value}; it has to be from {self.min} to {self.max}")


class Parameter(typing.NamedTuple):
    """One parameter of a command: what is declared, the type of one value, whether it repeats, and its default."""

    name: str
    declared: Argument | Option
    type: type
    many: bool
    default: Any

    @property
    def is_flag(self) -> bool:
        return self.type is bool

    @property
    def required(self) -> bool:
        return self.default is _REQUIRED


def parameters(command: Callable[..., None]) -> list[Parameter]:
    """The parameters of a command's function, in order."""
    hints = typing.get_type_hints(command, include_extras=True)
    names = command.__code__.co_varnames[: command.__code__.co_argcount]
    given = command.__defaults__ or ()
    defaults = dict(zip(names[len(names) - len(given) :], given, strict=True))
    return [_parameter(name, hints[name], defaults.get(name, _REQUIRED)) for name in names]


def _parameter(name: str, hint: Any, default: Any) -> Parameter:
    kind, declared = typing.get_args(hint)
    if not isinstance(declared, Argument | Option):
        raise TypeError(f"parameter {name!r}: declare it with an Argument or an Option of {__name__}")
    if isinstance(kind, types.UnionType):
        kind = next(part for part in typing.get_args(kind) if part is not type(None))
    many = typing.get_origin(kind) is list
    return Parameter(name, declared, typing.get_args(kind)[0] if many else kind, many, default)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message, f"`{self.prog} --help` shows how it is used.")


def parser_for(command: Callable[..., None], prog: str, description: str) -> argparse.ArgumentParser:
    """The parser of one command; its ``prog --help`` is made from the declarations."""
    parser = _Parser(prog=prog, description=description, allow_abbrev=False)
    for parameter in parameters(command):
        if isinstance(parameter.declared, Argument):
            _add_argument(parser, parameter, parameter.declared)
        else:
            _add_option(parser, parameter, parameter.declared)
    return parser


def _add_argument(parser: argparse.ArgumentParser, parameter: Parameter, declared: Argument) -> None:
    nargs = "*" if parameter.many else None if parameter.required else "?"
    default = None if parameter.required else parameter.default
    parser.add_argument(
        parameter.name, metavar=declared.metavar, help=declared.help, type=parameter.type, nargs=nargs, default=default
    )


def _add_option(parser: argparse.ArgumentParser, parameter: Parameter, declared: Option) -> None:
    if parameter.is_flag:
        parser.add_argument(*declared.flags, dest=parameter.name, help=declared.help, action="store_true")
        return
    metavar = declared.metavar or "|".join(declared.choices) or parameter.type.__name__.upper()
    default = os.environ.get(declared.envvar, parameter.default) if declared.envvar else parameter.default
    parser.add_argument(
        *declared.flags,
        dest=parameter.name,
        metavar=metavar,
        help=_option_help(parameter, declared),
        type=parameter.type,
        required=default is _REQUIRED,
        default=None if default is _REQUIRED else default,
        action="append" if parameter.many else "store",
    )


def _option_help(parameter: Parameter, declared: Option) -> str:
    notes = [] if parameter.default in (None, _REQUIRED) else [f"default: {parameter.default}"]
    notes += [f"or ${declared.envvar}"] if declared.envvar else []
    text = f"{declared.help} ({'; '.join(notes)})" if notes else declared.help
    return text.replace("%", "%%")


def parse(command: Callable[..., None], prog: str, description: str, words: Sequence[str]) -> dict[str, Any]:
    """The keyword arguments for a call of ``command``. Raises :class:`UsageError`, or exits after ``--help``."""
    parser = parser_for(command, prog, description)
    space, rest = parser.parse_known_intermixed_args(words)
    if rest:
        _refuse(rest, command, prog)
    values = vars(space)
    for parameter in parameters(command):
        if isinstance(parameter.declared, Option):
            parameter.declared.check(values[parameter.name])
    return values


def _refuse(rest: Sequence[str], command: Callable[..., None], prog: str) -> NoReturn:
    word = next((word for word in rest if word.startswith("-")), rest[0]).partition("=")[0]
    usage = f"`{prog} --help` shows how it is used."
    if not word.startswith("-"):
        raise UsageError(f"unexpected argument `{word}`", usage)
    options = (parameter.declared for parameter in parameters(command))
    flags = [flag for option in options if isinstance(option, Option) for flag in option.flags]
    longer = next((f"Did you mean `{flag}`?" for flag in flags if flag.startswith(word)), None)
    raise UsageError(f"`{prog}` has no option `{word}`", longer or did_you_mean(word, flags) or usage)
