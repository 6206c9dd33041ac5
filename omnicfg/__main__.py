"""The command ``omnicfg``, and ``python -m omnicfg``: ends without a word where it is interrupted while it starts."""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point: :func:`omnicfg.cli.main`, which takes longer to import than anything that comes before it."""
    try:
        from omnicfg import cli
    except KeyboardInterrupt:
        sys.exit(130)
    cli.main()


if __name__ == "__main__":
    main()
