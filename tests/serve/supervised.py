"""Starts :func:`omnicfg.serve.supervise.supervise` over the fake server, as ``omnicfg serve`` does over a real one."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from omnicfg.errors import ServeError
from omnicfg.serve.launch import Launch
from omnicfg.serve.supervise import Address, Say, supervise


def main(port: int, grace_s: float, restarts: int, behaviours: list[str]) -> int:
    server = Path(__file__).with_name("fake_server.py")
    launch = Launch((sys.executable, str(server), str(port), *behaviours))
    address = Address("127.0.0.1", port) if "headless" not in behaviours else None
    try:
        notice = _impatient if "impatient" in behaviours else _say("notice")
        supervise(launch, address, _say("ready"), notice, grace_s, restarts)
    except ServeError as error:
        print("error", error, flush=True)
        return 2
    return 0


def _say(kind: str) -> Say:
    return lambda text: print(kind, text, flush=True)


def _impatient(text: str) -> None:
    """Asks once more as soon as it is told that the server is being stopped."""
    print("notice", text, flush=True)
    if text == "stopping":
        os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]))
