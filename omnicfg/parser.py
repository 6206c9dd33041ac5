"""A command's function → its command line.

A parameter is declared by its annotation: ``Annotated[str, Argument(...)]`` or ``Annotated[bool, Option("--flag")]``.
``str``, ``int``, ``float``, ``Path``, ``bool``, lists of them and ``| None`` are understood. Written out here because
a framework takes longer to start than a profile to compile; even argparse costs half a bare start of Python.
"""

from __future__ import annotations

import os
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NoReturn

from omnicfg.errors import UsageError
from omnicfg.near import did_you_mean
from omnicfg.wording import is_plain

Words = Callable[[], Iterable[str]]
_REQUIRED: Final = object()
_NUMBERS: Final = {int: "a whole number", float: "a number"}


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
        if self.choices and value not in self.choices:
            hint = did_you_mean(value, self.choices) or f"One of: {', '.join(self.choices)}."
            raise UsageError(f"`{self.flags[0]}` cannot be `{value}`", hint)
        if (self.min is not None and value < self.min) or (self.max is not None and value > self.max):
            raise UsageError(f"`{self.flags[0]}` is {value}; it has to be {self._bounds()}")

    def _bounds(self) -> str:
        if self.max is None:
            return f"{self.min} or more"
        return f"{self.max} or less" if self.min is None else f"from {self.min} to {self.max}"


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
    def is_required(self) -> bool:
        return self.default is _REQUIRED

    @property
    def shown(self) -> str:
        """How the parameter is named to a user."""
        return self.declared.metavar if isinstance(self.declared, Argument) else self.declared.flags[0]

    def value(self, text: str) -> Any:
        """The value that a word stands for. Raises :class:`UsageError` where it stands for none.

        An empty word is mostly a variable that was not set, and would be the current directory where a path is meant.
        """
        if not text:
            raise UsageError(f"`{self.shown}` is empty", "Give it a value, or leave it out.")
        try:
            value = self.type(text) if self.type not in _NUMBERS or is_plain(text) else None
        except ValueError:
            value = None
        if value is None:
            raise UsageError(f"`{self.shown}` is `{text}`; it has to be {_NUMBERS[self.type]}") from None
        if isinstance(self.declared, Option):
            self.declared.check(value)
        return value


def parameters(command: Callable[..., Any]) -> list[Parameter]:
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


def parse(
    command: Callable[..., Any], prog: str, description: str, words: Sequence[str], *more: Callable[..., Any]
) -> dict[str, Any]:
    """The keyword arguments for a call of ``command``, and those for ``more``, whose options it has besides.

    Raises :class:`UsageError`, or exits after ``--help``.
    """
    declared = [parameter for each in (command, *more) for parameter in parameters(each)]
    return _Parser(declared, prog, description).parse(words)


class _Parser:
    def __init__(self, declared: list[Parameter], prog: str, description: str) -> None:
        self.prog = prog
        self.description = description
        self.arguments = [each for each in declared if isinstance(each.declared, Argument)]
        self.options = [each for each in declared if isinstance(each.declared, Option)]
        self.by_flag = {flag: each for each in self.options for flag in _option(each).flags}

    def parse(self, words: Sequence[str]) -> dict[str, Any]:
        """Options may stand anywhere; after ``--`` every word is an argument."""
        found: dict[str, Any] = {}
        positional: list[str] = []
        rest = iter(words)
        for word in rest:
            if word == "--":
                positional += rest
            elif word in ("-h", "--help"):
                print(self.help(), end="")
                raise SystemExit(0)
            elif word.startswith("-") and word != "-":
                self._take(word, rest, found)
            else:
                positional.append(word)
        self._place(positional, found)
        return {each.name: self._value(each, found) for each in (*self.arguments, *self.options)}

    def _take(self, word: str, rest: Iterator[str], found: dict[str, Any]) -> None:
        flag, equals, text = word.partition("=")
        parameter = self.by_flag.get(flag)
        if parameter is None:
            self._refuse_option(flag)
        if parameter.is_flag:
            if equals:
                raise UsageError(f"`{flag}` takes no value", f"Write `{flag}` alone, or leave it out.")
            found[parameter.name] = True
            return
        if not equals:
            text = next(rest, "--")
            if text == "--" or text in self.by_flag:
                self._refuse(f"`{flag}` needs a value")
        value = parameter.value(text)
        if parameter.many:
            found.setdefault(parameter.name, []).append(value)
        else:
            found[parameter.name] = value

    def _place(self, words: list[str], found: dict[str, Any]) -> None:
        for parameter in self.arguments:
            if parameter.many:
                found[parameter.name] = [parameter.value(word) for word in words]
                words = []
            elif words:
                found[parameter.name] = parameter.value(words.pop(0))
        if words:
            self._refuse(f"unexpected argument `{words[0]}`")

    def _value(self, parameter: Parameter, found: dict[str, Any]) -> Any:
        if parameter.name in found:
            return found[parameter.name]
        envvar = parameter.declared.envvar if isinstance(parameter.declared, Option) else None
        if envvar and os.environ.get(envvar):
            return parameter.value(os.environ[envvar])
        if parameter.is_required:
            self._refuse(f"{parameter.shown} is missing")
        return parameter.default

    def _refuse(self, message: str) -> NoReturn:
        raise UsageError(message, f"`{self.prog} --help` shows how it is used.")

    def _refuse_option(self, flag: str) -> NoReturn:
        longer = [f"Did you mean `{known}`?" for known in self.by_flag if known.startswith(flag)]
        hint = longer[0] if longer else did_you_mean(flag, self.by_flag)
        raise UsageError(f"`{self.prog}` has no option `{flag}`", hint or f"`{self.prog} --help` shows how it is used.")

    def help(self) -> str:
        """The text of ``--help``."""
        from omnicfg.report.table import render_table
        from omnicfg.report.terminal import Style, paragraph, width_of

        plain, width = Style(False), min(width_of(sys.stdout) or 100, 100)
        usage = " ".join(["usage:", self.prog, *map(_usage, self.arguments), "[OPTION ...]"])
        arguments = [[each.shown, each.declared.help] for each in self.arguments]
        options = [[_left(each), _right(each)] for each in self.options]
        parts = [f"{paragraph(usage, width)}\n{paragraph(self.description, width)}"]
        if arguments:
            parts.append("\narguments:\n" + render_table(arguments, plain, width, indent="  "))
        options.append(["-h, --help", "Show this help and exit."])
        parts.append("\noptions:\n" + render_table(options, plain, width, indent="  "))
        return "".join(parts)


def _option(parameter: Parameter) -> Option:
    assert isinstance(parameter.declared, Option)
    return parameter.declared


def _usage(parameter: Parameter) -> str:
    shown = f"{parameter.shown} ..." if parameter.many else parameter.shown
    return shown if parameter.is_required else f"[{shown}]"


def _left(parameter: Parameter) -> str:
    option = _option(parameter)
    flags = ", ".join(option.flags)
    if parameter.is_flag:
        return flags
    return f"{flags} {option.metavar or '|'.join(option.choices) or parameter.type.__name__.upper()}"


def _right(parameter: Parameter) -> str:
    option = _option(parameter)
    has_default = parameter.default not in (None, False) and not parameter.is_required
    notes = [f"default: {parameter.default}"] if has_default else []
    notes += [f"or ${option.envvar}"] if option.envvar else []
    return f"{option.help} ({'; '.join(notes)})" if notes else option.help
