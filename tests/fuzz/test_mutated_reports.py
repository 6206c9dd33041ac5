"""Mutated profiles in a report: always a whole page that can be read back, whatever they say."""

from __future__ import annotations

import random
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from omnicfg.catalog.library import library
from omnicfg.findings.settings import Settings
from omnicfg.overview import Request, overview
from omnicfg.passes.read import read_file
from omnicfg.report.html.page import render_page
from omnicfg.tree import Layer, LayerKind, plain
from tests.commands.test_report import data_of
from tests.fuzz.harness import time_limit
from tests.fuzz.mutate import mutate
from tests.fuzz.restructure import restructure, to_yaml

PLATFORMS = ("cuda", "npu")
BATCHES, SIZE = 6, 30
TAGS = {
    *("html", "head", "meta", "title", "style", "body", "a", "header", "p", "b", "nav", "ul", "li", "search", "label"),
    *(
        "input",
        "main",
        "h1",
        "h2",
        "span",
        "section",
        "div",
        "button",
        "details",
        "summary",
        "code",
        "pre",
        "mark",
        "dl",
    ),
    *("dt", "dd", "form", "select", "option", "table", "noscript", "footer", "script"),
}


class Reader(HTMLParser):
    """Counts what a page is made of."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.scripts = 0
        self.handlers: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.scripts += tag == "script"
        self.handlers += [name for name, _ in attrs if name.startswith("on") or name == "style"]


def test_a_page_comes_of_whatever_is_there(tmp_path: Path) -> None:
    originals = list(library().values())
    for path in originals:
        (tmp_path / path.name).write_bytes(path.read_bytes())
    for batch in range(BATCHES):
        mutants = [write(tmp_path, originals, batch * SIZE + number) for number in range(SIZE)]
        with time_limit():
            page = render_page(overview(Request(mutants, mutants, PLATFORMS, "vllm-omni", Settings())))
        check(page, len(mutants))


def write(folder: Path, originals: list[Path], seed: int) -> Path:
    """Every second mutant is one of text, which is often no YAML; the others are of structure."""
    rng, original = random.Random(f"report {seed}"), originals[seed % len(originals)]
    path = folder / f"mutant{seed}.yaml"
    if seed % 2:
        path.write_bytes(mutate(original.read_text(encoding="utf-8"), rng)[0])
    else:
        document = plain(read_file(original, Layer(LayerKind.PROFILE)))
        path.write_text(to_yaml(restructure(document, rng)), encoding="utf-8")
    return path


def check(page: str, count: int) -> None:
    page.encode("utf-8")
    reader = Reader()
    reader.feed(page)
    assert reader.tags <= TAGS
    assert reader.scripts == 2
    assert reader.handlers == []
    data: dict[str, Any] = data_of(page)
    assert len(data["profiles"]) == count
    for profile in data["profiles"]:
        for _, _, rows in profile["blocks"]:
            assert all(0 <= row < len(data["rows"]) for row in rows)
    for key, *cells in data["rows"]:
        assert 0 <= key < len(data["texts"])
        assert len(cells) in (1, len(PLATFORMS))
        assert all(-1 <= cell < len(data["cells"]) for cell in cells)
