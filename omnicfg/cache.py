"""The user's cache of what omnicfg generates, where each thing appears complete or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from omnicfg.errors import UsageError
from omnicfg.files import expanded, unused_beside
from omnicfg.interrupt import interruptible

WRITABLE_CACHE: Final = "Set XDG_CACHE_HOME to a directory that can be written."


def user_cache() -> Path:
    """This user's cache directory, by the XDG base directory rules (a relative setting is ignored).

    Raises :class:`UsageError` for a user without a home, as in a container that is run under any number.
    """
    configured = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(configured) if Path(configured).is_absolute() else expanded("~/.cache")
    if not base.is_absolute():
        raise UsageError("this user has no home directory to keep a cache in", WRITABLE_CACHE)
    return base / "omnicfg"


def make_once(target: Path, write: Callable[[Path], None]) -> Path:
    """``target``, filled by ``write`` unless it is there already.

    The work is done in a sibling directory that is renamed when it is complete: nobody ever sees half of it,
    and of several processes that make it at once one wins and the others throw their copy away.
    """
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with interruptible():
        workshop = unused_beside(target)
        try:
            workshop.mkdir(mode=0o700)
            write(workshop)
            workshop.chmod(0o755)
            _publish(workshop, target)
        finally:
            shutil.rmtree(workshop, ignore_errors=True)
    return target


def _publish(workshop: Path, target: Path) -> None:
    try:
        workshop.rename(target)
    except OSError:
        if not target.is_dir():  # anything but having lost the race
            raise
