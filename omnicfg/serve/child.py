"""A server as a child process in a session of its own, which ends as a whole, however this process ends.

Ctrl-C in a terminal reaches this process alone, and everything that the child starts (engine cores, workers) is found
by its session whatever becomes of its parents. Where this process is killed outright, a watcher
(:mod:`omnicfg.serve.watcher`) ends the session in its place.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

from omnicfg.errors import ServeError
from omnicfg.serve.processes import clear_session
from omnicfg.serve.watcher import DONE

_WATCHER: Final = (sys.executable, "-P", "-m", "omnicfg.serve.watcher")


@contextlib.contextmanager
def child(
    command: Sequence[str],
    environment: Mapping[str, str] | None = None,
    *,
    grace_s: float,
    directory: Path | None = None,
    **streams: Any,
) -> Iterator[subprocess.Popen[bytes]]:
    """The command, without input; ``streams`` are those that ``subprocess`` knows. At the end it is killed.

    ``grace_s`` is how long it may take to stop where this process has been killed; ``directory`` is then removed.
    Raises :class:`ServeError` where it cannot be started.
    """
    with _watcher(grace_s, directory) as watcher:
        try:
            process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                # Told before it becomes another program, so that there is no moment at which it is not watched.
                preexec_fn=lambda: _tell(watcher, os.getpid()),  # noqa: PLW1509 - takes no lock
                **streams,
            )
        except OSError as error:
            raise ServeError(f"`{command[0]}` cannot be started: {error.strerror}") from error
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            clear_session(process.pid)
            with contextlib.suppress(BrokenPipeError):  # it has been killed itself
                _tell(watcher, DONE)


@contextlib.contextmanager
def _watcher(grace_s: float, directory: Path | None) -> Iterator[IO[bytes]]:
    """Where a watcher reads that goes on as a process of nobody's."""
    words = [*_WATCHER, str(grace_s), *([str(directory)] if directory else [])]
    process = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    )
    assert process.stdin is not None
    assert process.stderr is not None
    with process.stdin, process.stderr:
        said = process.stderr.read()
        if process.wait():
            raise ServeError(f"nothing can watch over the server:\n{said.decode(errors='replace')}")
        yield process.stdin


def _tell(watcher: IO[bytes], number: int) -> None:
    os.write(watcher.fileno(), f"{number}\n".encode())
