"""Credentials of a profile → references to environment variables; their values are written nowhere."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from omnicfg.secrets import Secret, looks_secret, without_passwords

Path = tuple[str | int, ...]

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class Reference(NamedTuple):
    """A variable that has to hold what stands at ``path`` of the profile."""

    variable: str
    path: str


def variables(references: Iterable[Reference]) -> list[str]:
    """The variables that have to be set, each once."""
    return sorted({reference.variable for reference in references})


def with_references(document: dict[str, Any]) -> tuple[dict[str, Any], tuple[Reference, ...]]:
    """The document with ``${oc.env:NAME}`` in place of each credential, and what each variable stands for.

    A key of a stage's ``env`` keeps its name where all stages mean the same by it; other variables are named by where
    the value stands.
    """
    found = dict(_secrets(document, (), hidden=False))
    names = _names(found)
    made = _replaced(document, (), names, found)
    assert isinstance(made, dict)
    return made, tuple(sorted({Reference(name, _shown(path)) for path, name in names.items()}))


def _secrets(value: Any, path: Path, *, hidden: bool) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict):
        for key, child in value.items():
            yield from _secrets(child, (*path, key), hidden=hidden or looks_secret(key))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _secrets(child, (*path, index), hidden=hidden)
    elif _is_secret(value, hidden=hidden):
        yield path, value


def _is_secret(value: Any, *, hidden: bool) -> bool:
    """Whether a value is a credential; ``hidden`` says that its key, or one above, is that of one."""
    if hidden:
        return value not in (None, "") and not isinstance(value, bool)
    return isinstance(value, Secret) or (isinstance(value, str) and without_passwords(value) != value)


def _names(found: dict[Path, Any]) -> dict[Path, str]:
    """Path → variable: one for each place, except that equal variables of stages are one."""
    own: dict[str, set[str]] = {}
    for path, value in found.items():
        own.setdefault(_own(path) or "", set()).add(str(value))
    names: dict[Path, str] = {}
    taken = {name for name, values in own.items() if len(values) == 1}
    for path in found:
        name = _own(path)
        names[path] = name if name in taken and name is not None else _free(_from(path), taken)
        taken.add(names[path])
    return names


def _own(path: Path) -> str | None:
    """The variable that a stage's ``env`` sets."""
    is_env = len(path) == 4 and path[0] == "stages" and path[2] == "env"
    return str(path[3]) if is_env and _VARIABLE.match(str(path[3])) else None


def _from(path: Path) -> str:
    """``("connectors", "store", "extra", "password")`` → ``CONNECTORS_STORE_EXTRA_PASSWORD``"""
    name = re.sub(r"[^A-Za-z0-9]+", "_", "_".join(map(str, path))).strip("_").upper()
    return name.replace("STAGES_", "STAGE_", 1) if path[0] == "stages" else name


def _free(name: str, taken: set[str]) -> str:
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free


def _replaced(value: Any, path: Path, names: dict[Path, str], found: dict[Path, Any]) -> Any:
    if path in names:
        variable = f"${{oc.env:{names[path]}}}"
        return variable if isinstance(found[path], str) else f"${{oc.decode:{variable}}}"
    if isinstance(value, dict):
        return {key: _replaced(child, (*path, key), names, found) for key, child in value.items()}
    if isinstance(value, list):
        return [_replaced(child, (*path, index), names, found) for index, child in enumerate(value)]
    return value


def _shown(path: Path) -> str:
    return ".".join(map(str, path))
