"""The pages on what is found in command lines: one each, and their table of contents."""

from __future__ import annotations

import shlex
from itertools import takewhile
from typing import Final

from omnicfg.command_line.findings import KINDS, Kind
from omnicfg.export.docs_output import fenced, output_of, table

_PROFILE: Final = """\
pipeline: qwen3_tts
stages:
  - {stage_id: 0, devices: "0", gpu_memory_utilization: 0.3}
  - {stage_id: 1, devices: "0", gpu_memory_utilization: 0.2}
"""
_MADE: Final = "<!-- Made by `python -m omnicfg.export.docs` from omnicfg/command_line/findings.py. -->\n"
_ABOUT: Final = """\
What `omnicfg resolve --command` and `omnicfg migrate --command` find in a whole `vllm serve --omni` command, as
vLLM-Omni 0.30.0 reads it. Each page shows its finding alone; what else the command prints is left out. How to use them:
[migrating](../migrate.md).
"""


def command_pages() -> dict[str, str]:
    """Page name → text."""
    pages = {f"{kind.code}.md": _page(name, kind) for name, kind in KINDS.items()}
    return {"commands.md": _index(), **pages}


def _page(name: str, kind: Kind) -> str:
    command = kind.bad
    told = output_of(["resolve", "--command", command], {"profile.yaml": _PROFILE.encode()})
    parts = [
        f"# {kind.code} {name}\n",
        _MADE,
        f"Severity: {kind.severity.value}. {kind.what}\n",
        f"## Why\n\n{kind.why}\n",
        f"## Bad\n\n`profile.yaml`:\n\n{fenced('yaml', _PROFILE)}",
        fenced("text", f"$ omnicfg resolve --command {shlex.quote(command)}\n{_finding(kind.code, told)}"),
        f"## Instead\n\n{kind.instead}\n",
        "[All findings in command lines](commands.md)\n",
    ]
    return "\n".join(parts)


def _finding(code: str, told: str) -> str:
    """The finding of that code and what is indented below it, without the plan that is printed as well."""
    lines = told.splitlines()
    first = next(number for number, line in enumerate(lines) if f"[{code}]" in line)
    return "\n".join([lines[first], *takewhile(lambda line: line.startswith(" "), lines[first + 1 :])])


def _index() -> str:
    rows = [(f"[{kind.code}]({kind.code}.md)", name, kind.severity.value, kind.what) for name, kind in KINDS.items()]
    return "\n".join(["# Command lines\n", _MADE, _ABOUT, table(("code", "name", "severity", "what it finds"), rows)])
