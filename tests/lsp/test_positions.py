"""Places between the protocol's way of counting and ours."""

from __future__ import annotations

import pytest

from omnicfg.lsp.positions import Positions
from omnicfg.tree import Mark

TEXT = "a: 1\r\n🎵ä: x\u2028b: 2\rc: 3\n"


@pytest.mark.parametrize(("encoding", "column"), [("utf-8", 8), ("utf-16", 5), ("utf-32", 4)])
def test_columns_are_in_the_units_of_the_encoding(encoding: str, column: int) -> None:
    positions = Positions(TEXT, encoding)
    assert positions.of_index(TEXT.index("x")) == (1, column)
    assert positions.index(1, column) == TEXT.index("x")


def test_yaml_ends_lines_where_the_protocol_does_not() -> None:
    positions = Positions(TEXT, "utf-32")
    assert positions.of_mark(Mark("", 3, 1, 3, 2)) == ((1, 6), (1, 7))  # the `b`, on YAML's third line
    assert positions.place(1, 6) == (3, 1)
    assert positions.place(2, 0) == (4, 1)


def test_a_place_past_the_end_is_the_end() -> None:
    positions = Positions("ab\ncd")
    assert positions.index(0, 99) == 2
    assert positions.index(1, 99) == 5
    assert positions.index(9, 0) == 5
    assert positions.of_mark(Mark("", 9, 1, 9, 2)) == ((1, 2), (1, 2))
    assert positions.of_mark(Mark("")) == ((0, 0), (0, 0))


def test_a_byte_order_mark_takes_no_column_of_ours() -> None:
    positions = Positions("\ufeffab: 1")
    assert positions.of_mark(Mark("", 1, 1, 1, 3)) == ((0, 1), (0, 3))
    assert positions.place(0, 1) == (1, 1)
