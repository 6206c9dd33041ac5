"""The commands: one file each. A module holds ``HELP`` and ``run``, a function with :mod:`omnicfg.parser` annotations.

``run`` returns the exit code (``None`` is 0). Machine formats are all that a command prints on stdout; anything else
goes to stderr.
"""
