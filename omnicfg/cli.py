"""The command line. Only the command that is asked for is imported, so that ``omnicfg`` starts at once."""

from __future__ import annotations

import errno
import gc
import os
import sys
from types import ModuleType
from typing import Final, TextIO

from omnicfg import streams
from omnicfg.errors import OmnicfgError, UsageError
from omnicfg.registry import module_spelt, modules_of, spelt_names

PROG: Final = "omnicfg"
COMPLETE: Final = "_OMNICFG_COMPLETE"
_COMMANDS: Final = "omnicfg.commands"
_OPTIONS: Final = ("--help", "--version")
_READER_GONE: Final = 141  # as of a command that SIGPIPE ended: 128 and its number
_UNWRITABLE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})
_ABOUT: Final = "Compile, check, diff and serve deploy profiles of multi-stage omni models."


def command_names() -> tuple[str, ...]:
    """The commands as they are typed."""
    return spelt_names(_COMMANDS)


def command_module(name: str) -> ModuleType:
    """The module of a command: ``HELP`` and ``run``. Raises :class:`UsageError` with a near name."""
    if name in command_names():
        return module_spelt(_COMMANDS, name)
    from omnicfg.near import did_you_mean

    if name.startswith("-"):
        hint = did_you_mean(name, _OPTIONS) or f"Options: {', '.join(_OPTIONS)}; a command has options of its own."
        raise UsageError(f"`{PROG}` has no option `{name}`", hint)
    hint = did_you_mean(name, (*command_names(), *_OPTIONS)) or f"Commands: {', '.join(command_names())}."
    raise UsageError(f"`{PROG}` has no command `{name}`", hint)


def run(words: list[str]) -> int:
    """Carry out a command line; the exit code."""
    if COMPLETE in os.environ:
        from omnicfg.completion import candidates

        print("\n".join(candidates(words)))
        return 0
    if len(words) > 1 and words[0] in ("-h", *_OPTIONS):
        is_command = words[1] in command_names()
        hint = f"`{PROG} {words[1]} --help` shows a command's options." if is_command else "Leave it out."
        raise UsageError(f"`{PROG} {words[0]}` takes no `{words[1]}`", hint)
    if not words or words[0] in ("-h", "--help"):
        stream = sys.stdout if words else sys.stderr
        stream.write(_overview(stream))
        return 0 if words else 2
    if words[0] == "--version":
        from omnicfg import __version__

        print(f"{PROG} {__version__}")
        return 0
    from omnicfg.commands._options import limits_of
    from omnicfg.files import current_folder
    from omnicfg.parser import parse

    current_folder()  # raises where there is none, whatever the command
    module = command_module(words[0])
    limits = limits_of(module.run)
    given = parse(module.run, f"{PROG} {words[0]}", module.HELP, words[1:], *limits)
    if not limits:
        return module.run(**given) or 0
    with limits[0](given.pop("root"), given.pop("allow_env")):
        return module.run(**given) or 0


def _overview(stream: TextIO) -> str:
    from omnicfg.report.table import render_table
    from omnicfg.report.terminal import Style, paragraph, width_of

    width = width_of(stream)
    rows = [[name.replace("_", "-"), str(module.HELP)] for name, module in modules_of(_COMMANDS).items()]
    last = [
        f"`{PROG} COMMAND --help` shows a command's options; `{PROG} --version` the version.",
        "Exit codes: 0 clean, 1 findings or differences, 2 usage or trouble, 130 interrupted, 141 output cut off.",
    ]
    return "".join(
        [
            f"usage: {PROG} COMMAND ...\n\n{paragraph(_ABOUT, width)}\ncommands:\n",
            render_table(rows, Style(False), width, indent="  "),
            "\n",
            *(paragraph(line, width) for line in last),
        ]
    )


def main() -> None:
    """Entry point. Exit codes: 0 clean, 1 findings, 2 usage or trouble, 130 interrupted, 141 output cut off."""
    # Nearly all that a command makes lives until it ends: collecting garbage every 700 objects is a tenth of its time.
    gc.set_threshold(100_000)
    streams.prepare()
    try:
        code = run(sys.argv[1:])
        sys.stdout.flush()
    except OmnicfgError as error:
        from omnicfg.report.text import render_errors

        streams.complain(render_errors(error))
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # The reader of our output has gone (``omnicfg ... | head``).
        streams.write_no_more()
        sys.exit(_READER_GONE)
    except OSError as error:
        from omnicfg.report.terminal import one_line

        streams.complain(f"error: {one_line(_trouble(error))}\n")
        sys.exit(2)
    sys.exit(code)


def _trouble(error: OSError) -> str:
    """What the machine refuses: to write the output, or a file where no command has expected it."""
    said = error.strerror or str(error) or type(error).__name__
    if error.filename is not None:
        return f"`{error.filename}`: {said}"
    if error.errno not in _UNWRITABLE:
        return said
    streams.write_no_more()
    return f"the output cannot be written: {said}"


if __name__ == "__main__":
    main()
