"""HTML by elements: text stays text, the policy names what may run, and data cannot end its script."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from xml.etree.ElementTree import tostring

import pytest

from omnicfg.report.html.elements import Child, document, element, prose

HOSTILE = "</script><img src=x onerror=alert(1)>\"'&\u202e\u2028\x00"


def html(child: Child) -> str:
    return tostring(element("p", child), encoding="unicode", method="html")


def test_text_and_attributes_are_escaped() -> None:
    assert html("<b>&") == "<p>&lt;b&gt;&amp;</p>"
    made = tostring(element("a", href='"><script>', aria_label="x", hidden=True, open=False), "unicode", method="html")
    assert made == '<a href="&quot;&gt;<script&gt;" aria-label="x" hidden=""></a>'


def test_children_keep_their_order() -> None:
    made = element("p", "a", element("b", "c"), ["d", None, element("i"), "e"], "f")
    assert tostring(made, "unicode", method="html") == "<p>a<b>c</b>d<i></i>ef</p>"


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("`a: 1` of `b`, c", "<p><code>a: 1</code> of <code>b</code>, c</p>"),
        ("`a` and ` alone", "<p><code>a</code> and ` alone</p>"),
        ("nothing in ``", "<p>nothing in ``</p>"),
        ("`<b>`\nmore", "<p><code>&lt;b&gt;</code>\\nmore</p>"),
    ],
)
def test_a_sentence_shows_code_as_code(text: str, made: str) -> None:
    assert html(prose(text)) == made


def test_what_hides_text_is_shown() -> None:
    assert html("a\u202eb\x00") == "<p>a\\u202eb\\x00</p>"
    assert html("caf\udce9") == "<p>caf\\udce9</p>"


def test_data_cannot_end_its_script_and_comes_back_whole() -> None:
    page = document([], [], {"text": HOSTILE})
    raw = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert raw is not None
    assert not set("<>&\u2028") & set(raw[1])
    assert json.loads(raw[1]) == {"text": HOSTILE}


def test_the_policy_allows_the_page_s_own_style_and_script_and_nothing_else() -> None:
    page = document([], [], {})
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    assert policy is not None
    allowed = dict(part.split(" ", 1) for part in policy[1].split("; "))
    style = re.search(r"<style>(.*?)</style>", page, re.S)
    script = re.search(r"<script>(.*?)</script>", page, re.S)
    assert style is not None
    assert script is not None
    assert allowed["default-src"] == "'none'"
    assert allowed["style-src"] == f"'{digest(style[1])}'"
    assert allowed["script-src"] == f"'{digest(script[1])}'"
    assert "unsafe" not in policy[1]
    assert page.index("Content-Security-Policy") < page.index("<style>")


def digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def test_style_and_script_refer_to_nothing_outside() -> None:
    page = document([], [], {})
    assert not re.findall(r"https?:|url\(|@import|\bfetch\b|XMLHttpRequest|innerHTML|insertAdjacentHTML|\beval\b", page)
