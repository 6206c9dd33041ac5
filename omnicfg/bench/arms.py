"""Arms: plans of one profile that differ by declared overrides and by nothing else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from omnicfg.errors import UsageError
from omnicfg.secrets import redacted_setting

ALONE: Final = "stages=0"
"""An arm of the first stage alone: nobody reads its hidden states, so it is vLLM's plain server."""
ROWS: Final = "rows=asked"
"""An arm whose requests ask for their hidden states, which a process of its own takes in."""
_OWN: Final = {"stages": (ALONE, "the first stage alone"), "rows": (ROWS, "every request asks for its hidden states")}
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}")
_NEXT: Final = re.compile(r",(?=[\w.]+=)")
_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_FORM: Final = "`--arm off:stages.0.enable_prefix_caching=false`; `--arm on` changes nothing."


@dataclass(frozen=True, slots=True)
class Arm:
    """``settings`` are overrides as ``--set`` takes them; ``alone`` is :data:`ALONE`, ``rows`` is :data:`ROWS`."""

    name: str
    settings: tuple[str, ...] = ()
    alone: bool = False
    rows: bool = False


PREFIX_CACHE: Final = (
    Arm("off", ("stages.0.enable_prefix_caching=false",)),
    Arm("on", ("stages.0.enable_prefix_caching=true",)),
)


def parse_arms(words: Sequence[str]) -> tuple[Arm, ...]:
    """The arms of ``NAME:KEY=VALUE,KEY=VALUE`` each. Raises :class:`UsageError`."""
    arms: list[Arm] = []
    for word in words:
        name, colon, text = word.partition(":")
        settings = [setting.strip() for setting in _split(text)] if colon else []
        if _NAME.fullmatch(name) is None:
            raise UsageError(f"`{name}` is no name for an arm", f"Letters, digits, `_`, `-`. {_FORM}")
        if name in (arm.name for arm in arms):
            raise UsageError(f"arm `{name}` is there twice", "Each arm is one plan.")
        for setting in settings:
            if "=" not in setting:
                raise UsageError(f"arm `{name}`: `{setting}` sets nothing", _FORM)
            known, meaning = _OWN.get(setting.partition("=")[0], (setting, ""))
            if setting != known:
                raise UsageError(f"arm `{name}` cannot be had with `{setting}`", f"Only `{known}`: {meaning}.")
        if ALONE in settings and ROWS in settings:
            raise UsageError(f"arm `{name}`: `{ALONE}` keeps no hidden states that `{ROWS}` could ask for")
        told = tuple(one for one in settings if one not in (ALONE, ROWS))
        arms.append(Arm(name, told, ALONE in settings, ROWS in settings))
    return tuple(arms)


def _split(text: str) -> list[str]:
    """The settings between commas; a comma in quotes or brackets is a value's own."""
    parts: list[str] = []
    for part in _NEXT.split(text):
        if parts and not _is_whole(parts[-1]):
            parts[-1] += f",{part}"
        else:
            parts.append(part)
    return parts


def _is_whole(setting: str) -> bool:
    """Whether all quotes and brackets that it opens are closed."""
    bare = _QUOTED.sub("", setting)
    return '"' not in bare and all(bare.count(one) <= bare.count(other) for one, other in ("[]", "{}"))


def shown(word: str) -> str:
    """A word of a command, an arm's settings among them, without keys and passwords.

    Cut wherever a setting could begin: behind a quote that is never closed, a key would be shown.
    """
    return ",".join(redacted_setting(setting) for setting in _NEXT.split(word))
