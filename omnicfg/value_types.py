"""What kinds of value a setting takes, read from the annotation text of the schema that declares it."""

from __future__ import annotations

import functools
import re
from typing import Any, Final, NamedTuple

_SIMPLE: Final = {
    "bool": "bool",
    "int": "int",
    "float": "float",
    "str": "str",
    "None": "none",
    "none": "none",
    "dict": "mapping",
    "list": "list",
    "tuple": "list",
    "set": "list",
    "Any": "any",
    "RequestOutputKind": "int",  # an enum, of which topologies have the number
}
_NAMES: Final = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "mapping": "a mapping",
    "list": "a list",
    "none": "null",
}


class ValueType(NamedTuple):
    """The kinds of value allowed (``bool``, ``int``, ``float``, ``str``, ``mapping``, ``list``, ``none``, ``any``).

    ``choices`` lists the only strings allowed; empty: any string. ``spellings`` says what does not matter in them:
    ``ignore_case``, and ``dashes``, which may stand for underscores. ``words`` are those that mean something where any
    string is allowed, because a plugin may bring more. ``items`` is what a list or mapping may hold, where it is known.
    """

    kinds: frozenset[str]
    choices: tuple[str, ...] = ()
    spellings: frozenset[str] = frozenset()
    words: tuple[str, ...] = ()
    items: ValueType | None = None

    def admits(self, value: Any) -> bool:
        """Whether a plain value is of an allowed kind (an int passes for a float, a bool never for a number)."""
        if "any" in self.kinds:
            return True
        kind = kind_of(value)
        if kind == "str" and self.choices:
            return self._spelt(value) in map(self._spelt, self.choices)
        return kind in self.kinds or (kind == "int" and "float" in self.kinds)

    def has_word(self, text: str) -> bool:
        """Whether a text is one of the words that mean something."""
        return self._spelt(text) in map(self._spelt, self.words)

    def _spelt(self, text: str) -> str:
        text = text.lower() if "ignore_case" in self.spellings else text
        return text.replace("-", "_") if "dashes" in self.spellings else text

    def __str__(self) -> str:
        if self.choices:
            return "one of " + ", ".join(self.choices)
        order = [name for name in _NAMES if name in self.kinds - {"none"}] or ["none"]
        if "float" in order and "int" in order:
            order.remove("int")
        return " or ".join(_NAMES[name] for name in order)


def kind_of(value: Any) -> str:
    """The kind of a plain value."""
    if value is None:
        return "none"
    for kind, python in (("bool", bool), ("int", int), ("float", float), ("str", str), ("mapping", dict)):
        if isinstance(value, python):
            return kind
    return "list"


@functools.cache
def parse_annotation(text: str) -> ValueType:
    """The type behind an annotation such as ``dict[str, Any] | None`` or ``Literal["v1", "v2"]``.

    Names that are not built in (dataclasses) count as mappings.
    """
    kinds: set[str] = set()
    choices: list[str] = []
    items: list[ValueType] = []
    for part in _split(text, "|"):
        literal = re.fullmatch(r"(?:typing\.)?Literal\[(.*)\]", part)
        if literal:
            kinds.add("str")
            choices += re.findall(r"['\"]([^'\"]*)['\"]", literal.group(1))
            continue
        name, _, inner = part.partition("[")
        kinds.add(_SIMPLE.get(name.strip(), "mapping"))
        held = _held(name.strip(), inner.removesuffix("]"))
        if held:
            items.append(parse_annotation(held))
    return ValueType(frozenset(kinds), tuple(choices), items=items[0] if len(items) == 1 else None)


def _held(name: str, inner: str) -> str:
    """What the items of ``list[T]``, ``set[T]`` and ``tuple[T, ...]`` are, and the values of ``dict[K, T]``."""
    arguments = _split(inner, ",")
    if name in ("list", "set") and len(arguments) == 1:
        return arguments[0]
    if name == "tuple" and arguments[1:] == ["..."]:
        return arguments[0]
    return arguments[1] if name == "dict" and len(arguments) == 2 else ""


def _split(text: str, separator: str) -> list[str]:
    """The parts between the separators that stand in no brackets."""
    parts, depth, start = [], 0, 0
    for position, character in enumerate(text):
        if character == "[":
            depth += 1
        elif character == "]":
            depth -= 1
        elif character == separator and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    return [part.strip() for part in [*parts, text[start:]] if part.strip()]
