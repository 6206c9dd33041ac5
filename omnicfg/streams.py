"""Standard output and error as they may be: closed, full, or unable to show a character."""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import sys
from typing import Final, TextIO

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
    sys.stdout = _whole(sys.stdout or open(os.devnull, "w"))  # noqa: SIM115, PTH123  # open to the end
    sys.stderr = _whole(sys.stderr or open(os.devnull, "w"))  # noqa: SIM115, PTH123
    codecs.register_error(_ERRORS, _shown)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_ERRORS)


def _whole(stream: TextIO) -> TextIO:
    """A stream that writes all of a text or raises.

    With ``PYTHONUNBUFFERED`` Python's own takes a text for written where the system has taken only a part of it (on a
    full disk). And a pipe may be non-blocking, as an event-driven parent leaves it.
    """
    raw = getattr(stream, "buffer", None)
    with contextlib.suppress(OSError):  # it has no descriptor
        os.set_blocking(stream.fileno(), True)
    if not isinstance(raw, io.RawIOBase):
        return stream
    return io.TextIOWrapper(io.BufferedWriter(raw), stream.encoding, stream.errors, line_buffering=True)


def note(text: str) -> None:
    """A line for people on standard error: always one, whatever characters the names in it have."""
    from omnicfg.report.terminal import one_line

    print(one_line(text), file=sys.stderr, flush=True)


def complain(text: str) -> None:
    """Write to standard error. Where that cannot be written, nobody is left to be told."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        write_no_more(sys.stderr)


def write_no_more(stream: TextIO | None = None) -> None:
    """Keep the interpreter from complaining at exit about what it could not write, to standard output or ``stream``."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), (stream or sys.stdout).fileno())


def _shown(error: UnicodeError) -> tuple[str, int]:
    """What is written in place of the characters that the encoding lacks; a file name may be no text at all."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(_PLAINER.get(character) or _escaped(character) for character in lacking), error.end


def _escaped(character: str) -> str:
    return character.encode("ascii", "backslashreplace").decode("ascii")
