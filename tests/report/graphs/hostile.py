"""A graph whose names mean something in the languages that graphs are written in."""

from __future__ import annotations

from typing import Final

from omnicfg.graph.model import File, Graph, Link, Stage

NAMES: Final = (
    'a"b', "a\\", 'a\\"b', "a\\nb", "<b>a</b>", "a & b", "a#35;b", "a;b", "`a`", "a]b[", "a|b{c}", "%%{init: {}}%%",
    "end", "名前.yaml", "a\tb", "a\x1b[31m", "\u202eabc", "C:\\profiles\\a.yaml",
)  # fmt: skip


def hostile(name: str) -> Graph:
    """Every text of it is ``name``, as far as a profile decides it."""
    return Graph(
        name,
        "cuda",
        name,
        (File(name, "profile", ("cuda",)),),
        (Stage(0, name, "llm", name, 1, None, True), Stage(1, name, "llm", None, 2, name, False)),
        (Link(0, 1, name, name, True), Link(1, 7, None, name, False, is_real=False)),
    )
