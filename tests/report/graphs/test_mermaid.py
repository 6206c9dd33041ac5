"""The mermaid format is a flowchart, as Mermaid itself parses it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from omnicfg.catalog.library import library
from omnicfg.report.graphs.mermaid import render
from omnicfg.report.terminal import Style
from tests.graph.test_model import graph
from tests.report.graphs.hostile import NAMES, hostile

_TEXT = r'"(?:[^"<>&`\[\]{}|;#\n\\]|#\d+;|<br/>)*"'
_LINE = (
    r"flowchart LR|  subgraph (?:files|stages) \[T\]|  end|    (?:file|stage)_\d+\[T\]"
    r"|    (?:file|stage)_\d+ (?:-->|-\.->)(?:\|T\|)? (?:file|stage)_\d+"
).replace("T", _TEXT)


@pytest.mark.parametrize("name", [*library(), *NAMES])
def test_it_is_made_of_few_forms_of_lines(name: str) -> None:
    drawn = hostile(name) if name in NAMES else graph(name)
    for line in render(drawn, Style(False), None).splitlines():
        assert re.fullmatch(_LINE, line), line


Parsed = Callable[[list[str]], list[dict[str, Any]]]

_PARSE = """\
import { JSDOM } from 'jsdom'
const dom = new JSDOM('')
globalThis.window = dom.window
globalThis.document = dom.window.document
const { default: mermaid } = await import('mermaid')
let text = ''
for await (const chunk of process.stdin) text += chunk
const found = []
for (const one of JSON.parse(text)) {
  await mermaid.parse(one)
  const { type, db } = await mermaid.mermaidAPI.getDiagramFromText(one)
  const nodes = [...db.getVertices().values()].map((node) => [node.id, node.text])
  const links = db.getEdges().map((edge) => [edge.start, edge.end, edge.text])
  found.push({ type, nodes, links })
}
console.log(JSON.stringify(found))
"""


@pytest.fixture(scope="module")
def parsed(tmp_path_factory: pytest.TempPathFactory) -> Parsed:
    """Mermaid in Node, with a document to be in."""
    folder = tmp_path_factory.mktemp("npm")
    install = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder)]
    subprocess.run([*install, "mermaid@11.17.2", "jsdom@26.1.0"], check=True, cwd=folder, timeout=300)
    (folder / "parse.mjs").write_text(_PARSE, encoding="utf-8")

    def parse(texts: list[str]) -> list[dict[str, Any]]:
        done = subprocess.run(
            ["node", "parse.mjs"], input=json.dumps(texts), capture_output=True, text=True, check=False, cwd=folder
        )
        assert done.returncode == 0, done.stderr
        found: list[dict[str, Any]] = json.loads(done.stdout)
        return found

    return parse


def shown(text: str) -> str:
    """A text as Mermaid draws it: it keeps ``#35;`` in characters of its own until then."""
    return re.sub("\ufb02\u00b0\u00b0(\\d+)\u00b6\u00df", lambda number: chr(int(number[1])), text)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("npm") is None, reason="npm, which installs Mermaid, is not here")
def test_mermaid_parses_it(parsed: Parsed) -> None:
    profiles = list(library())
    graphs = [*map(graph, profiles), *map(hostile, NAMES)]
    found = parsed([render(each, Style(False), None) for each in graphs])
    for drawn, one in zip(graphs, found, strict=True):
        assert one["type"] == "flowchart-v2"
        files, stages = [node for node in one["nodes"] if node[0].startswith("file")], dict(one["nodes"])
        assert len(files) == len(drawn.files)
        for stage in drawn.stages:
            assert shown(stages[f"stage_{stage.stage_id}"]).startswith(f"stage {stage.stage_id} ")
        links = [(start, end) for start, end, _ in one["links"] if start.startswith("stage")]
        assert links == [(f"stage_{link.source}", f"stage_{link.target}") for link in drawn.links]
    for name, one in zip(NAMES, found[len(profiles) :], strict=True):
        if name.isprintable():
            assert shown(one["nodes"][0][1]).split("<br>")[0] == name
