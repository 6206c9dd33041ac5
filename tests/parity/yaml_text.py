"""YAML written as a user might write it: scalars as they stand, repeated and odd keys, block and flow style."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Map:
    """A mapping as pairs, so that a key can be repeated; keys and scalar values are YAML text."""

    pairs: list[tuple[str, Value]] = field(default_factory=list)
    anchor: str = ""

    def add(self, key: str, value: Value) -> None:
        """Append a pair."""
        self.pairs.append((key, value))


Value = str | list["Value"] | Map


def flow(value: Value) -> str:
    """In flow style, on one line."""
    if isinstance(value, Map):
        inner = ", ".join(f"{key}: {flow(item)}" for key, item in value.pairs)
        return f"{{{inner}}}"
    if isinstance(value, list):
        return f"[{', '.join(flow(item) for item in value)}]"
    return value


def block(value: Value, depth: int = 0, *, flow_below: int = 99) -> str:
    """In block style down to ``flow_below`` levels, in flow style below; ends with a newline."""
    pad = "  " * depth
    if isinstance(value, Map) and value.pairs and depth < flow_below:
        return "".join(f"{pad}{key}:{_below(item, depth, flow_below)}" for key, item in value.pairs)
    if isinstance(value, list) and value and depth < flow_below:
        return "".join(f"{pad}-{_item(item, depth, flow_below)}" for item in value)
    return f"{pad}{flow(value)}\n"


def _below(value: Value, depth: int, flow_below: int) -> str:
    anchor = f" &{value.anchor}" if isinstance(value, Map) and value.anchor else ""
    nested = value.pairs if isinstance(value, Map) else value if isinstance(value, list) else []
    if nested and depth + 1 < flow_below:
        return f"{anchor}\n{block(value, depth + 1, flow_below=flow_below)}"
    return f"{anchor} {flow(value)}\n"


def _item(value: Value, depth: int, flow_below: int) -> str:
    if isinstance(value, Map) and value.pairs and depth + 1 < flow_below:
        return " " + block(value, depth + 1, flow_below=flow_below).lstrip(" ")
    return f" {flow(value)}\n"
