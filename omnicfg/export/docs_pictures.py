"""The pictures of the documentation, drawn as SVG: light and dark, with a title and a description in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Final

_STYLE: Final = """\
text { font: 13px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328 }
.small { font-size: 12px; fill: #59636e }
.name { font-weight: 600 }
.code { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; font-size: 12px }
.middle { text-anchor: middle }
.page { fill: #ffffff }
.box { fill: #f4f6f8; stroke: #8c959f }
.data { fill: #fff6e5; stroke: #b7791f }
.result { fill: #e6f4ea; stroke: #2f855a }
.shared { fill: #e3edff; stroke: #2b6cb0 }
.line { fill: none; stroke: #59636e; stroke-width: 1.5 }
.dashed { stroke-dasharray: 5 4 }
.tip { fill: #59636e }
.lost { text-decoration: line-through; opacity: 0.7 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
.small { fill: #9da7b3 }
.page { fill: #14181e }
.box { fill: #20262e; stroke: #6e7985 }
.data { fill: #33290f; stroke: #d29922 }
.result { fill: #12311d; stroke: #3fb950 }
.shared { fill: #14284a; stroke: #6ca4f8 }
.line { stroke: #9da7b3 }
.tip { fill: #9da7b3 }
}
"""

_ARROWHEAD: Final = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path class="tip" d="M0 0 8 4 0 8z"/></marker></defs>'
)

# The passes in their order: module, what it does, and what has become of `max_num_seqs` in the worked example.
PASSES: Final = (
    ("read", "YAML to a tree of values with places", ("base.yaml: 10", "quiet.yaml: 16")),
    ("interpolate", "${...} expressions", ()),
    ("inherit", "the chain of base_config, then overlays", ("16 <lost>10",)),
    ("deploy", "one spelling for each setting, defaults", ("16",)),
    ("platform", "the block of one platform on top", ("npu: 4 <lost>16",)),
    ("override", "--set on top", ("8 <lost>4",)),
    ("topology", "the pipeline's own stages beside it", ()),
    ("engine_args", "what each stage is started with", ("--max-num-seqs 8",)),
)
_INPUTS: Final = {
    "deploy": ("deploy language", "schemas/vllm-omni"),
    "topology": ("topologies", "schemas/vllm-omni"),
}
_USES: Final = (("rules", "findings"), ("compare", "changes"), ("report", "tables"), ("serve", "a server"))
_ROW: Final = 56
_TOP: Final = 76

# Physical blocks of the cache, and where they stand in the picture.
_COLUMNS: Final = {7: 150, 2: 290, 9: 430, 4: 570}
_SHARED: Final = (7, 2)


def pictures() -> dict[str, str]:
    """File name → text of every picture."""
    return {"passes.svg": passes(), "paged-rows.svg": paged_rows()}


def passes() -> str:
    """From files to a plan, pass by pass, with one value of the worked example beside them."""
    plan = _TOP + _ROW * len(PASSES)
    parts = [
        *_box(196, 16, 300, 36, "data", "profile, bases, overlays"),
        *_words(620, 39, ("stages.0.max_num_seqs",), "code"),
    ]
    for number, (name, does, value) in enumerate(PASSES):
        y = _TOP + _ROW * number
        parts += [*_arrow(346, y - (24 if number == 0 else 20), 346, y), *_box(196, y, 300, 36, "box", name, does)]
        parts += _words(620, y + (14 if len(value) > 1 else 22), value, "code")
        if name in _INPUTS:
            parts += [*_box(16, y, 142, 36, "data", *_INPUTS[name]), *_arrow(158, y + 18, 196, y + 18)]
    parts += _bracket(508, _TOP, _TOP + 3 * _ROW + 36, ("once",))
    parts += _bracket(508, _TOP + 4 * _ROW, _TOP + 7 * _ROW + 36, ("once for", "each platform"))
    parts += [
        *_arrow(346, plan - 20, 346, plan),
        *_box(196, plan, 300, 36, "result", "plan", "each value with its origin"),
    ]
    parts += [*_arrow(496, plan + 18, 596, plan + 18, "dashed")]
    parts += _box(596, plan, 188, 36, "box", "effective", "vLLM's defaults, on request")
    for number, (module, gives) in enumerate(_USES):
        x = 196 + 77 * number
        parts += [*_arrow(x + 34, plan + 36, x + 34, plan + 60), *_box(x, plan + 60, 69, 36, "box", module, gives)]
    return _svg(
        800,
        plan + 112,
        "The passes, from files to a plan",
        "Profile, bases and overlays go through eight passes: "
        + ", ".join(name for name, _does, _value in PASSES)
        + ". The first four are done once, the others for each platform. The deploy language comes in at deploy, "
        "the topologies at topology. Out comes the plan, which rules, compare, report and serve use; effective fills "
        "up with vLLM's defaults. Beside the passes: max_num_seqs is 10 in the base and 16 in the profile, so 16 after "
        "inherit; 4 after the NPU's block; 8 after --set.",
        parts,
    )


def paged_rows() -> str:
    """Two requests with one prefix, the blocks that they share, and whose rows the Talker reads."""
    parts = [
        *_words(16, 52, ("request A",), "name"),
        *_words(16, 170, ("the paged", "KV cache"), "name"),
        *_words(16, 330, ("request B",), "name"),
        *_request(24, {7: "prefix, 1st", 2: "prefix, 2nd", 9: "A's question"}),
        *_request(302, {7: "prefix, 1st", 2: "prefix, 2nd", 4: "B's question"}),
    ]
    for block, x in _COLUMNS.items():
        parts += _box(x, 124, 120, 60, _kind(block), f"block {block}", "keys and values", "of every layer")
        parts += _box(x, 184, 120, 44, "data", "rows", "of layer 24")
        middle = x + 60
        if block != 4:
            parts += [*_arrow(middle, 70, middle, 124), *_words(middle + 8, 101, ("computed",), "small")]
        if block in _SHARED:
            parts += [*_arrow(middle, 228, middle, 302), *_words(middle + 8, 269, ("hit",), "small")]
        if block != 9:
            parts += _arrow(middle, 348, middle, 386)
    own = _COLUMNS[4] + 60
    parts += [*_arrow(own, 302, own, 228), *_words(own + 8, 269, ("computed",), "small")]
    reads = "a row for each token of B, also where A computed it"
    parts += _box(150, 386, 540, 44, "result", "the Talker of B", reads)
    return _svg(
        740,
        446,
        "The paged rows: hidden states under the block table of keys and values",
        "Request A fills blocks 7, 2 and 9 of the paged KV cache. Each block holds keys and values of its tokens and, "
        "below them, their rows: the hidden states of layer 24. Request B begins with the same prefix: its block table "
        "names blocks 7 and 2, which are hits, and block 4, which it computes. The Talker of B reads the rows of "
        "blocks 7, 2 and 4: one for each token of B.",
        parts,
    )


def _request(y: int, cells: Mapping[int, str]) -> Iterator[str]:
    for block, tokens in cells.items():
        yield from _box(_COLUMNS[block], y, 120, 46, _kind(block), tokens, f"block {block}")


def _kind(block: int) -> str:
    return "shared" if block in _SHARED else "box"


def _svg(width: int, height: int, title: str, description: str, parts: Sequence[str]) -> str:
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="title desc">',
            f'<title id="title">{escape(title)}</title>',
            f'<desc id="desc">{escape(description)}</desc>',
            f"<style>\n{_STYLE}</style>",
            _ARROWHEAD,
            f'<rect class="page" width="{width}" height="{height}" rx="8"/>',
            *parts,
            "</svg>\n",
        ]
    )


def _box(x: int, y: int, width: int, height: int, kind: str, name: str, *below: str) -> Iterator[str]:
    yield f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="5"/>'
    middle, line = x + width // 2, y + height // 2 + 5 - 8 * len(below)
    yield f'<text class="name middle" x="{middle}" y="{line}">{escape(name)}</text>'
    for number, text in enumerate(below, 1):
        yield f'<text class="small middle" x="{middle}" y="{line + 16 * number}">{escape(text)}</text>'


def _words(x: int, y: int, lines: Sequence[str], kind: str) -> Iterator[str]:
    """Lines of text; what stands behind ``<lost>`` is struck through."""
    for number, line in enumerate(lines):
        word, _, lost = line.partition("<lost>")
        struck = f'<tspan class="lost" dx="8">{escape(lost)}</tspan>' if lost else ""
        yield f'<text class="{kind}" x="{x}" y="{y + 18 * number}">{escape(word)}{struck}</text>'


def _arrow(x1: int, y1: int, x2: int, y2: int, kind: str = "") -> Iterator[str]:
    yield f'<path class="{f"line {kind}".strip()}" d="M{x1} {y1} {x2} {y2}" marker-end="url(#tip)"/>'


def _bracket(x: int, top: int, bottom: int, words: Sequence[str]) -> Iterator[str]:
    yield f'<path class="line" d="M{x} {top} {x + 8} {top} {x + 8} {bottom} {x} {bottom}"/>'
    yield from _words(x + 18, (top + bottom) // 2 - 9 * len(words) + 14, words, "small")
