"""YAML output: what our reader, and one of YAML 1.2, make of it is what went in."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from omnicfg.passes.read import read_text
from omnicfg.report.yaml import dumps, inline
from omnicfg.tree import Layer, LayerKind, plain

MISREAD = ["yes", "off", "null", "~", "1e3", "010", "12:30", "0x1f", ".inf", "y", "a b", "a: b", "- a", "#"]
# Every character that a text may have. As a codec's they would be asked for one by one, more than a million, while the
# first value is made, and hypothesis then stops for how long that took: wherever it has kept no answer from before.
CHARACTERS = st.characters(exclude_categories=["Cs"])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False)
    | st.text(CHARACTERS, max_size=12)
    | st.sampled_from(MISREAD)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(CHARACTERS, max_size=6), inner, max_size=3),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.dictionaries(st.text(CHARACTERS, min_size=1, max_size=6), VALUES, max_size=4))
def test_what_is_written_is_read_again(value: dict[str, Any]) -> None:
    value.pop("<<", None)
    text = dumps(value)
    ours = plain(read_text(text, Layer(LayerKind.PROFILE), "x"))
    assert repr(ours) == repr(value)
    assert YAML(typ="safe", pure=True).load(text) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("turn", "turn"),
        ("0", '"0"'),
        ("true", '"true"'),
        ("y", '"y"'),
        ("", '""'),
        ("a\tb\u2028", '"a\\tb\\u2028"'),
        (1e16, "1.0e+16"),
        (float("inf"), ".inf"),
        (float("nan"), ".nan"),
        (True, "true"),
        ([1, {"a": None}], "[1, {a: null}]"),
    ],
)
def test_inline(value: Any, text: str) -> None:
    assert inline(value) == text


def test_blocks_are_written_as_people_write_them() -> None:
    stages = [{"stage_id": 0, "env": {"A": "1"}, "ids": [1, 2]}]
    assert dumps({"stages": stages, "edges": [], "x": [[1], [{"a": 1}]]}) == (
        'stages:\n  - stage_id: 0\n    env:\n      A: "1"\n    ids: [1, 2]\nedges: []\nx:\n  - [1]\n  - - a: 1\n'
    )
