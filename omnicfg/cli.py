"""The command line. Only the command that is asked for is imported, so that ``omnicfg`` starts at once."""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import Annotated, Final

import typer

from omnicfg.errors import OmnicfgError
from omnicfg.registry import module_names, modules_of

_COMMANDS: Final = "omnicfg.commands"


def build_app(argv: list[str]) -> typer.Typer:
    """The typer application: with the one command that ``argv`` names, or with all of them for help and completion."""
    app = typer.Typer(
        name="omnicfg",
        help="Compile, check, diff and serve deploy profiles of multi-stage omni models.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )

    @app.callback()
    def root(
        version: Annotated[bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)] = False,
    ) -> None:
        if version:
            from omnicfg import __version__

            print(f"omnicfg {__version__}")
            raise typer.Exit

    for name, module in _wanted(argv).items():
        app.command(name.replace("_", "-"), help=module.HELP)(module.run)
    return app


def _wanted(argv: list[str]) -> dict[str, ModuleType]:
    asked = argv[0].replace("-", "_") if argv else ""
    if asked in module_names(_COMMANDS) and "_OMNICFG_COMPLETE" not in os.environ:
        from importlib import import_module

        return {asked: import_module(f"{_COMMANDS}.{asked}")}
    return modules_of(_COMMANDS)


def main() -> None:
    """Entry point. Exit codes: 0 clean, 1 findings, 2 usage or trouble, 130 interrupted."""
    try:
        build_app(sys.argv[1:])()
    except OmnicfgError as error:
        from omnicfg.report.text import render_errors

        print(render_errors(error), end="", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # The reader of our output has gone (``omnicfg ... | head``); keep the interpreter from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


if __name__ == "__main__":
    main()
