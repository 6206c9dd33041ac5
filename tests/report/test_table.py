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


def test_a_narrow_terminal_wraps_the_widest_columns() -> None:
    text = render_table([["key", "word " * 20, "x " * 30]], PLAIN, 50)
    assert max(map(cells, text.splitlines())) <= 50
    assert text.count("word") == 20
    assert text.count("x") == 30


def test_styles_do_not_count_as_width() -> None:
    text = render_table([[Cell("a", "error"), "b"], ["ccc", "d"]], Style(True), None)
    assert text == "\x1b[1;31ma\x1b[0m    b\nccc  d\n"


def test_no_rows_no_text() -> None:
    assert render_table([], PLAIN, None) == ""


def test_markdown_cells_cannot_break_the_table() -> None:
    assert render_markdown([["a|b", "<i>\n\\"]], ["x", "y"]) == (
        "| x | y |\n| --- | --- |\n| a\\|b | &lt;i><br>\\\\ |\n"
    )
