"""Documents with remarks, and with texts of several lines that stay readable."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from omnicfg.report.terminal import one_line, wrap
from omnicfg.report.yaml import inline, scalar

_WIDTH: Final = 110


class Remark(str):
    """As a key: a comment above the next key; its value is nothing."""

    __slots__ = ()


class Literal(str):
    """A text that is written as a block, line by line. Its lines end with a newline, and begin with no space."""

    __slots__ = ()


def document(value: dict[Any, Any]) -> str:
    """A mapping as a YAML document in block style, as readers of YAML 1.1 and 1.2 take alike."""
    return "".join(f"{line}\n" for line in _mapping(value))


def comment(text: str) -> str:
    """A text as comments, line by line."""
    return "".join(f"# {one_line(line)}\n" for line in text.split("\n"))


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
        elif isinstance(child, list) and any(isinstance(item, dict) for item in child):
            yield f"{name}:"
            yield from (f"  {line}" for line in _list(child))
        else:
            yield f"{name}: {inline(child)}"


def _list(value: list[Any]) -> Iterator[str]:
    for child in value:
        first, *rest = _mapping(child) if isinstance(child, dict) else [inline(child)]
        yield f"- {first}"
        yield from (f"  {line}" for line in rest)
