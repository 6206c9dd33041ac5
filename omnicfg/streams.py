"""Standard output and error as they may be: closed, full, or unable to show a character."""

from __future__ import annotations

import codecs
import os
import sys
from typing import Final

_PLAINER: Final = {
    "├": "|",
    "└": "`",
    "│": "|",
    "─": "-",
    "…": "...",
    "→": "->",
    "·": "-",
}
"""What stands for the characters of our own that an encoding such as Windows' cp1252 or ASCII lacks."""
_ERRORS: Final = "omnicfg"


def prepare() -> None:
    """Make standard output and error take every text: what cannot be shown must not end in a traceback."""
    # Python has no streams where the descriptors are closed (``>&-``).
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115, PTH123  # open to the end
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115, PTH123
    codecs.register_error(_ERRORS, _shown)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=_ERRORS)


def write_no_more() -> None:
    """Keep the interpreter from complaining at exit about what it could not write."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _shown(error: UnicodeError) -> tuple[str, int]:
    """What is written in place of the characters that the encoding lacks; a file name may be no text at all."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(_PLAINER.get(character) or _escaped(character) for character in lacking), error.end


def _escaped(character: str) -> str:
    return character.encode("ascii", "backslashreplace").decode("ascii")
