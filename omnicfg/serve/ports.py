"""A port that belongs to one server from its check to its end.

vLLM binds its port at once and listens there minutes later, when the model is there. Until then Linux lets others bind
it as well (both set SO_REUSEADDR), so a second server passes every check, loads its model, and fails at last. So each
``omnicfg serve`` claims its address by a name that the kernel gives to one process and takes back however that ends: a
socket in the abstract namespace (unix(7)), which reaches as far as ports do, to every process of the same network.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from omnicfg.diagnostics import Diagnostic
from omnicfg.serve.preflight import addresses_of, free_port, port_problems, problem

_PREFIX: Final = "omnicfg-serve"
_WILDCARDS: Final = frozenset({"0.0.0.0", "::"})
_ATTEMPTS: Final = 20
_LISTENS_S: Final = 10.0
"""How long it may take from having a name to listening there, on a machine that has other things to do."""
_POLL_S: Final = 0.02
_BACKLOG: Final = 4096  # whoever asks for the owner stays in it: nobody accepts
_CREDENTIALS: Final = struct.Struct("3i")
"""SO_PEERCRED: process, user, group."""


class Claim(NamedTuple):
    """The port that a server may have, or why it may not."""

    port: int
    problems: tuple[Diagnostic, ...] = ()


@contextlib.contextmanager
def claimed(host: str, port: int) -> Iterator[Claim]:
    """Claims the address for this process until the end of the context; port 0 stands for a free one.

    A program that takes this process's place (``exec``) has the claim after it.
    """
    with contextlib.ExitStack() as held:
        yield _claim(host, port, held)


def _claim(host: str, port: int, held: contextlib.ExitStack) -> Claim:
    wrong = tuple(port_problems(host, port))
    if port or wrong:
        other = _other(host, port, held)
        return Claim(port, wrong if other is None else (_taken(host, port, other),))
    for _ in range(_ATTEMPTS):
        free = free_port(host)
        if _other(host, free, held) is None:
            return Claim(free)
    return Claim(port, (problem(f"no port of {host} is free", "Choose one with `--port`."),))


def _other(host: str, port: int, held: contextlib.ExitStack) -> int | None:
    """The process that claims such an address already, 0 where it cannot be seen; ``None`` where the claim is ours.

    Where there are no such names, or no such host, nobody claims anything, and what the kernel says has to do.
    """
    if sys.platform != "linux":
        return None
    with contextlib.suppress(OSError, UnicodeError):
        own = {address for _, (address, *_) in addresses_of(host, port)}
        for address in own:
            if not _is_ours(port, address, held):
                return _owner(port, address)
        for address in _claims(port) - own:
            if _WILDCARDS & {address, *own}:
                return _owner(port, address)
    return None


def _is_ours(port: int, address: str, held: contextlib.ExitStack) -> bool:
    name = held.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
    try:
        name.bind(_name(port, address))
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return False
        raise
    name.listen(_BACKLOG)
    name.set_inheritable(True)
    return True


def _name(port: int, address: str) -> str:
    return f"\0{_PREFIX}/{port}/{address}"


def _claims(port: int) -> set[str]:
    """Every claimed address with that port."""
    start = f"@{_PREFIX}/{port}/"
    with contextlib.suppress(OSError):
        words = Path("/proc/net/unix").read_text(errors="replace").split()
        return {word.removeprefix(start) for word in words if word.startswith(start)}
    return set()


def _owner(port: int, address: str) -> int:
    """Who has a name. One that has it is about to listen there; one that has ended just now has it no more."""
    deadline = time.monotonic() + _LISTENS_S
    while True:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
            asking.setblocking(False)
            with contextlib.suppress(OSError):
                asking.connect(_name(port, address))
                return int(_CREDENTIALS.unpack(asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0])
        if address not in _claims(port) or time.monotonic() > deadline:
            return 0
        time.sleep(_POLL_S)


def _taken(host: str, port: int, owner: int) -> Diagnostic:
    shown, stop = (f" (process {owner})", f" (`kill {owner}`)") if owner else ("", "")
    return problem(
        f"{host}:{port} is taken: another `omnicfg serve`{shown} serves there, or is about to",
        f"Stop that one{stop}, or choose another port with `--port` (0 takes a free one).",
    )
