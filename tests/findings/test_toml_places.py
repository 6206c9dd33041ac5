"""Where the keys and values of a TOML text stand."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnicfg.findings.toml_places import Route, places
from omnicfg.fixes.edits import Text

ROOT = Path(__file__).parents[2]

TEXT = (ROOT / "tests/data/toml/every_kind.toml").read_text(encoding="utf-8")


def written(text: str) -> dict[Route, tuple[str | None, str]]:
    """Route → the key and the value as they are written."""
    text = text.replace("\r\n", "\n")
    addressed = Text(text)
    return {
        route: (
            None if place.key is None else text[slice(*addressed.span(place.key))],
            text[slice(*addressed.span(place.value))],
        )
        for route, place in places(text, "a.toml").items()
    }


def leaves(value: Any, route: Route = ()) -> Iterator[tuple[Route, Any]]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if not isinstance(value, dict | list):
        yield route, value
    for key, child in children:
        yield from leaves(child, (*route, key))


def check(text: str) -> None:
    """What stands at the place of a value means that value, and what stands at that of a key its name."""
    found = written(text)
    for route, value in leaves(tomllib.loads(text)):
        key, shown = found[route]
        assert tomllib.loads(f"k = {shown}")["k"] == value or value != value
        if key is not None:
            assert tomllib.loads(f"{key} = 1") == {route[-1]: 1}


def test_every_kind_of_value_and_table() -> None:
    check(TEXT)
    found = written(TEXT)
    assert found[("b.c", 3, "y", "k")] == ("k", "'q'")
    assert found[("b.c", 4)] == (None, "2")
    assert found[("t", "u", "d")] == ("d", "1979-05-27 07:32:00")
    assert found[("p", 1, "r", "x")] == ("x", '"off"')
    assert found[("p", 1, "q", 0, "k")] == ("k", "{}")
    assert found[("sp", "ab", "k", "l")] == ("l", "-inf")


def test_tables_have_the_place_of_their_header() -> None:
    found = written(TEXT)
    assert found[("t", "u")] == ("u", "[t.u]")
    assert found[("p", 0)] == found[("p", 1)] == ("p", "[[p]]")
    assert found[("t",)] == ("t", "t")


@pytest.mark.parametrize("text", ["", "# only\n", "a=1", "a = 1\r\nb = [1,\r\n2]\r\n", "a = [] # ]\n[b] # [c]\n"])
def test_small_texts(text: str) -> None:
    check(text)


def test_a_real_file() -> None:
    check((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_VALUES = st.recursive(
    st.integers(-(2**40), 2**40) | st.booleans() | _TEXTS | st.dates(),
    lambda inner: st.lists(inner, min_size=1, max_size=3) | st.dictionaries(_TEXTS, inner, min_size=1, max_size=3),
    max_leaves=8,
)


def toml(value: Any) -> str:
    """A value as TOML, with whatever may stand between its parts."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml(key)} = {toml(child)}" for key, child in value.items()) + " }"
    if isinstance(value, list):
        return "[ # ]\n" + " ,\n  ".join(map(toml, value)) + ", ]"
    if isinstance(value, str):
        return '"' + "".join(c if c.isalnum() or c in " ][}{#,='" else f"\\U{ord(c):08x}" for c in value) + '"'
    return str(value).lower()


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.dictionaries(_TEXTS, _VALUES, max_size=4))
def test_any_text(data: dict[str, Any]) -> None:
    text = "".join(f"{toml(key)} = {toml(value)} # x\n\n" for key, value in data.items())
    assert tomllib.loads(text) == data
    check(text)
