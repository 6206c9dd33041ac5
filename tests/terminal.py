"""A command at a terminal: what it shows there, and how it takes what is typed."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
CTRL_C, CTRL_D = "\x03", "\x04"
_PATIENCE_S = 60


class Shown(NamedTuple):
    """What a terminal showed, all of it, and the command's exit code."""

    code: int
    text: str


def at_terminal(
    words: Sequence[object],
    typed: Sequence[str] = (),
    *,
    columns: int = 80,
    folder: Path = ROOT,
    environment: Mapping[str, str] | None = None,
) -> Shown:
    """Run ``omnicfg`` with a terminal as all of its streams; each entry of ``typed`` is typed when it asks again."""
    screen, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "omnicfg.cli", *map(str, words)],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        cwd=folder,
        env={**os.environ, "TERM": "xterm", "PYTHONPATH": str(ROOT), **(environment or {})},
        start_new_session=True,
        preexec_fn=_as_in_a_terminal,  # noqa: PLW1509
    )
    os.close(terminal)
    try:
        text = _talk(screen, list(typed))
        return Shown(process.wait(_PATIENCE_S), text)
    finally:
        process.kill()
        os.close(screen)


def _as_in_a_terminal() -> None:
    """Ctrl-C reaches it, also where the tests themselves run in the background, which ignores it."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _talk(screen: int, typed: list[str]) -> str:
    """Everything shown until the other side has gone; an answer is typed when a prompt ends what is shown."""
    shown, end = b"", time.monotonic() + _PATIENCE_S
    while time.monotonic() < end:
        if select.select([screen], [], [], 0.1)[0]:
            try:
                read = os.read(screen, 65536)
            except OSError:  # Linux: nobody has the other side any more
                break
            if not read:
                break
            shown += read
        if typed and shown.endswith((b"] ", b"> ")):
            line = typed.pop(0)
            os.write(screen, (line if line in (CTRL_C, CTRL_D) else f"{line}\n").encode())
            shown += b" "  # the prompt is answered
    return shown.decode("utf-8", "replace").replace("\r\n", "\n")
