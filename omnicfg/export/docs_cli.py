"""The reference of the command line, from the declarations that the commands are parsed by."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from omnicfg.cli import PROG, command_module, command_names
from omnicfg.commands._options import limits_of
from omnicfg.export.docs_output import fenced, table
from omnicfg.parser import Argument, Option, Parameter, parameters

_ABOUT: Final = """\
Exit codes, of every command: 0 clean, 1 findings or differences, 2 usage or trouble, 130 interrupted, 141 where the
reader of the output goes away (`omnicfg ... | head`). Machine formats stand alone on standard output; what else there
is to say goes to standard error. Colour is for terminals, and never where `NO_COLOR` is set.

Of an option that takes one value and is given again the last one counts, so that what an alias, the action or the
image of a container says can be said otherwise behind it.
"""


def cli_page() -> str:
    """The page ``cli.md``."""
    parts = [
        "# Command line\n",
        "<!-- Made by `python -m omnicfg.export.docs` from omnicfg/commands/. -->\n",
        _ABOUT,
        "".join(f"- [`{PROG} {name}`](#{PROG}-{name}): {_module_help(name)}\n" for name in command_names()),
        *(_command(name) for name in command_names()),
    ]
    return "\n".join(parts)


def _module_help(name: str) -> str:
    return str(command_module(name).HELP)


def _command(name: str) -> str:
    module = command_module(name)
    declared = [parameter for each in (module.run, *limits_of(module.run)) for parameter in parameters(each)]
    arguments = [parameter for parameter in declared if isinstance(parameter.declared, Argument)]
    options = [parameter for parameter in declared if isinstance(parameter.declared, Option)]
    usage = [PROG, name, *map(_argument_usage, arguments), *(["[OPTION]..."] if options else [])]
    parts = [f"## {PROG} {name}\n", f"{module.HELP}\n", fenced("text", " ".join(usage))]
    if arguments:
        parts.append(table(("argument", "what"), [list(_argument_row(parameter)) for parameter in arguments]))
    if options:
        parts.append(table(("option", "what"), [list(_option_row(parameter)) for parameter in options]))
    return "\n".join(parts)


def _argument_usage(parameter: Parameter) -> str:
    metavar = _metavar(parameter)
    if parameter.many:
        return f"[{metavar} ...]"
    return metavar if parameter.is_required else f"[{metavar}]"


def _metavar(parameter: Parameter) -> str:
    declared = parameter.declared
    choices = "|".join(declared.choices) if isinstance(declared, Option) else ""
    return declared.metavar or choices or parameter.type.__name__.upper()


def _argument_row(parameter: Parameter) -> Iterator[str]:
    yield f"`{_metavar(parameter)}`"
    yield parameter.declared.help


def _option_row(parameter: Parameter) -> Iterator[str]:
    declared = parameter.declared
    assert isinstance(declared, Option)
    names = ", ".join(declared.flags)
    yield f"`{names}`" if parameter.is_flag else f"`{names} {_metavar(parameter)}`"
    notes = [declared.help]
    if parameter.many:
        notes += [] if "repeatable" in declared.help else ["Repeatable."]
    elif not parameter.is_flag and not parameter.is_required and parameter.default is not None:
        notes.append(f"Default: `{parameter.default}`.")
    if declared.envvar:
        notes.append(f"Or `${declared.envvar}`.")
    yield " ".join(notes)
