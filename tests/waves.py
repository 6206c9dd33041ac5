"""Requests of which some are under way whenever something happens to a server."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from tests.patience import PATIENCE_S

_CLOSED: Final = 599


@contextmanager
def asked_at_once(ask: Callable[[], int], count: int) -> Iterator[list[int]]:
    """Ask ``count`` times at once while the body runs; afterwards the statuses of the answers are in the list.

    A connection that was closed counts as 599: a failure too, and no hanging. With more requests than the server takes
    at a time, a second wave waits behind the first: however late this process gets a core, not all have been answered.
    """
    outcomes: list[int] = []

    def request() -> None:
        try:
            outcomes.append(ask())
        except (OSError, http.client.HTTPException):
            outcomes.append(_CLOSED)

    clients = [threading.Thread(target=request) for _ in range(count)]
    for client in clients:
        client.start()
    yield outcomes
    for client in clients:
        client.join(timeout=PATIENCE_S)
