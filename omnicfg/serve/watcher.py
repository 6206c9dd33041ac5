"""Ends what a killed process has left running: ``python -m omnicfg.serve.watcher GRACE_S [DIRECTORY]``.

It reads the ids of sessions from its standard input, a line each, until nobody is left who might write there: the
process that started it has ended then, however that came about. Then the leader of each session is asked to stop
(SIGTERM), has ``GRACE_S`` seconds for it, and nothing of the session is left; the directory is removed where no new
server uses it. After a 0 (:data:`DONE`) there is nothing to do.

It goes on in a process that is nobody's child. Stop signals, which may be sent to a whole group or service, are for
those that it watches.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from omnicfg.serve.processes import end_session
from omnicfg.serve.runtime import remove_unused

DONE: Final = 0
"""Stands in the place of a session."""


def main(words: Sequence[str]) -> int:
    """The exit status; that of the process which was started, once the one that goes on is ready."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.chdir("/")
    if os.fork():
        return 0
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    grace_s, *directories = words
    watch(float(grace_s), directories)
    return 0


def watch(grace_s: float, directories: Sequence[str]) -> None:
    """Returns when the watched process has ended and nothing of it is left."""
    sessions = [int(line) for line in sys.stdin]
    if DONE in sessions:
        return
    for session in sessions:
        end_session(session, grace_s)
    for directory in directories:
        remove_unused(Path(directory))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
