"""What text renderers know of where their text goes."""

from __future__ import annotations

import pytest

from omnicfg.report.terminal import Style, cells, has_colour, pad, printable, width_of, wrap


class FakeStream:
    def __init__(self, tty: bool) -> None:
        self.tty = tty

    def isatty(self) -> bool:
        return self.tty

    def fileno(self) -> int:
        raise OSError("not a real stream")


@pytest.mark.parametrize(
    ("tty", "environment", "expected"),
    [
        (True, {}, True),
        (False, {}, False),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"NO_COLOR": ""}, True),
        (True, {"TERM": "dumb"}, False),
    ],
)
def test_colour_is_for_terminals_that_want_it(
    monkeypatch: pytest.MonkeyPatch, tty: bool, environment: dict[str, str], expected: bool
) -> None:
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert has_colour(FakeStream(tty)) is expected


def test_only_a_terminal_has_a_width() -> None:
    assert width_of(FakeStream(False)) is None
    assert width_of(FakeStream(True)) == 80


def test_a_style_without_colour_leaves_text_alone() -> None:
    assert Style(False)("error", "x") == "x"
    assert Style(True)("struck", "x") == "\x1b[9;2mx\x1b[0m"
    assert Style(True)("error", "") == ""


@pytest.mark.parametrize(("text", "columns"), [("abc", 3), ("名前", 4), ("e\u0301", 1), ("", 0)])
def test_cells(text: str, columns: int) -> None:
    assert cells(text) == columns
    assert cells(pad(text, 6)) == 6


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1bb", "a\\x1bb"),
        ("a\u202eb", "a\\u202eb"),
        ("a\nb", "a\nb"),
        ("名\u00a0é", "名\u00a0é"),
        ("\udc80", "\\udc80"),
    ],
)
def test_printable(text: str, shown: str) -> None:
    assert printable(text) == shown


@pytest.mark.parametrize("width", [8, 10, 20, 79])
def test_wrapped_lines_fit_and_lose_nothing(width: int) -> None:
    text = "some words and a verylongwordthatfitsnowhere\nand a second paragraph with 名前名前名前名前"
    lines = wrap(text, width)
    assert max(map(cells, lines)) <= width
    assert "".join(lines).replace(" ", "") == text.replace(" ", "").replace("\n", "")


def test_without_a_width_nothing_is_wrapped() -> None:
    assert wrap("word " * 100, None) == ["word " * 100]
