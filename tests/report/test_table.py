"""Rows in columns."""

from __future__ import annotations

from omnicfg.report.table import Cell, render_markdown, render_table
from omnicfg.report.terminal import Style, cells

PLAIN = Style(False)


def test_columns_are_aligned_and_lines_end_where_their_text_does() -> None:
    rows = [["a", "long value", ""], ["名前", "x", "end"]]
    assert render_table(rows, PLAIN, None, headers=["key", "value", "note"], indent="  ") == (
        "  key   value       note\n  a     long value\n  名前  x           end\n"
    )


def test_a_narrow_terminal_wraps_the_last_column() -> None:
    text = render_table([["key", "short", "word " * 20], ["other", "x", "y"]], PLAIN, 50)
    assert max(map(cells, text.splitlines())) <= 50
    assert text.count("word") == 20
    assert text.splitlines()[0].startswith("key    short  word word")
    assert text.splitlines()[1].startswith("              word")


def test_where_even_that_leaves_no_room_rows_become_blocks() -> None:
    text = render_table([["key", "long middle cell, " * 3 + "yes", "last"], ["other", "x", "y"]], PLAIN, 40)
    assert text == (
        "key\n    long middle cell, long middle cell,\n    long middle cell, yes\n    last\nother\n    x  y\n"
    )
    rows = [["key", "middle " * 9, "last " * 9], ["other", "x", ""]]
    text = render_table(rows, PLAIN, 40, headers=["name", "what", "why"], indent="  ")
    assert max(map(cells, text.splitlines())) <= 40
    assert text.splitlines()[0] == "  key"
    assert text.splitlines()[1].startswith("      what: middle middle")
    assert text.splitlines()[-2:] == ["  other", "      what: x"]


def test_a_number_on_top_of_a_block_says_what_it_is_the_number_of() -> None:
    text = render_table([["0", "x " * 30], ["ours.yaml", "y " * 30]], PLAIN, 24, headers=["stage", "key"])
    assert [line for line in text.splitlines() if not line.startswith(" ")] == ["stage 0", "ours.yaml"]


def test_empty_columns_at_the_end_take_no_room() -> None:
    assert render_table([["a", "b", ""], ["c", "d", ""]], PLAIN, None) == "a  b\nc  d\n"


def test_styles_do_not_count_as_width() -> None:
    text = render_table([[Cell("a", "error"), "b"], ["ccc", "d"]], Style(True), None)
    assert text == "\x1b[1;31ma\x1b[0m    b\nccc  d\n"


def test_no_rows_no_text() -> None:
    assert render_table([], PLAIN, None) == ""


def test_markdown_cells_cannot_break_the_table() -> None:
    assert render_markdown([["a|b", "<i>\n\\"]], ["x", "y"]) == (
        "| x | y |\n| --- | --- |\n| a\\|b | &lt;i><br>\\\\ |\n"
    )


def test_a_line_break_is_an_escape_but_in_a_text_of_our_own() -> None:
    assert render_table([["a\nb", "c"]], PLAIN, None) == "a\\nb  c\n"
    assert render_table([["c", Cell("a\nb", lines=True)]], PLAIN, None) == "c  a\n   b\n"
