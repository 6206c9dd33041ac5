"""YAML that readers of version 1.1 and 1.2 take alike: whatever one of them might misread is quoted."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, Final

from omnicfg.passes.read import read_scalar
from omnicfg.report.terminal import one_line, wrap

_PLAIN: Final = r"(?a:[A-Za-z_./][\w./+-]*(?: [\w./+-]+)*)\Z"
_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_WIDTH: Final = 110  # of a remark


class Remark(str):
    """As a key: a comment above the next key; its value is nothing."""

    __slots__ = ()


class Literal(str):
    """A text that is written as a block, line by line. Its lines end with a newline, and begin with no space."""

    __slots__ = ()


def dumps(value: Any) -> str:
    """A document in block style; lists of scalars stand on one line."""
    if isinstance(value, dict) and value:
        return "".join(f"{line}\n" for line in _mapping(value))
    if isinstance(value, list) and value and not _is_flat(value):
        return "".join(f"{line}\n" for line in _list(value))
    return f"{inline(value)}\n"


def comment(text: str) -> str:
    """A text as comments, line by line."""
    return "".join(f"# {one_line(line)}\n" for line in text.split("\n"))


def inline(value: Any) -> str:
    """The value on one line: a scalar, ``[a, b]`` or ``{key: value}``."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{scalar(key)}: {inline(child)}" for key, child in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(inline(child) for child in value) + "]"
    return scalar(value)


def scalar(value: Any) -> str:
    """A scalar as it is written in YAML."""
    if isinstance(value, str):
        return _string(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, float):
        return _float(value)
    return str(value)


def _float(value: float) -> str:
    if not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    text = repr(value)
    mantissa, exponent, power = text.partition("e")
    return f"{mantissa}.0e{power}" if exponent and "." not in mantissa else text


def _string(value: str) -> str:
    if re.match(_PLAIN, value) and value.lower() not in ("y", "n") and isinstance(read_scalar(value), str):
        return value
    return quoted(value)


def quoted(text: str) -> str:
    """A text in double quotes."""
    return '"' + "".join(_escaped(character) for character in text) + '"'


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _is_flat(value: list[Any]) -> bool:
    return not any(isinstance(child, dict | list) and child for child in value)


def _mapping(value: dict[Any, Any]) -> Iterator[str]:
    for key, child in value.items():
        if isinstance(key, Remark):
            yield from (f"# {line}" for line in wrap(one_line(key), _WIDTH))
            continue
        name = scalar(key)
        if isinstance(child, Literal):
            yield f"{name}: |"
            yield from (f"  {line}" for line in child.removesuffix("\n").split("\n"))
        elif isinstance(child, dict) and child:
            yield f"{name}:"
            yield from (f"  {line}" for line in _mapping(child))
        elif isinstance(child, list) and child and not _is_flat(child):
            yield f"{name}:"
            yield from (f"  {line}" for line in _list(child))
        else:
            yield f"{name}: {inline(child)}"


def _list(value: list[Any]) -> Iterator[str]:
    for child in value:
        if isinstance(child, dict) and child:
            first, *rest = _mapping(child)
        elif isinstance(child, list) and child and not _is_flat(child):
            first, *rest = _list(child)
        else:
            first, rest = inline(child), []
        yield f"- {first}"
        yield from (f"  {line}" for line in rest)
