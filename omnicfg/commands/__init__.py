"""The commands: one file each. A module holds ``HELP`` and ``run``, a function with typer's annotations."""
