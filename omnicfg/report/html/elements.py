"""HTML made of elements, never of text put together: whatever a profile says stays text.

The serializer of Python's ElementTree escapes text and attributes; styles, scripts and data are the only exceptions.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, TypeAlias
from xml.etree.ElementTree import Element, tostring

from omnicfg.report.terminal import one_line, printable

Child: TypeAlias = "Element | str | Iterable[Child] | None"

_FOLDER: Final = Path(__file__).parent
# Characters that end a script for an HTML parser, or a line for an old JavaScript one.
_JSON_ESCAPES: Final = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}


def element(tag: str, *children: Child, **attributes: str | bool | None) -> Element:
    """An element. ``class_`` stands for ``class``, ``aria_label`` for ``aria-label``; ``None`` and false are left out.

    What a terminal would act on, or what hides other text, becomes an escape.
    """
    made = Element(tag)
    for name, value in attributes.items():
        if value is not None and value is not False:
            made.set(name.rstrip("_").replace("_", "-"), "" if value is True else printable(value))
    _append(made, children)
    return made


def _append(parent: Element, child: Child) -> None:
    if child is None:
        return
    if isinstance(child, Element):
        parent.append(child)
    elif not isinstance(child, str):
        for each in child:
            _append(parent, each)
    elif len(parent):
        parent[-1].tail = (parent[-1].tail or "") + printable(child)
    else:
        parent.text = (parent.text or "") + printable(child)


def prose(text: str) -> list[Child]:
    """A sentence of a diagnostic, on one line; what stands between its backticks is code."""
    parts = re.split(r"`([^`]+)`", one_line(text))
    return [element("code", part) if number % 2 else part for number, part in enumerate(parts)]


def document(head: Iterable[Child], body: Iterable[Child], data: Any) -> str:
    """A whole page with the style and the script of this folder, and ``data`` as JSON for the script.

    Its policy allows exactly these two, and nothing from anywhere else.
    """
    style, script = (_FOLDER / "report.css").read_text("utf-8"), (_FOLDER / "report.js").read_text("utf-8")
    policy = "; ".join(
        [
            "default-src 'none'",
            f"style-src '{_digest(style)}'",
            f"script-src '{_digest(script)}'",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        ]
    )
    page = element(
        "html",
        element(
            "head",
            element("meta", charset="utf-8"),
            element("meta", http_equiv="Content-Security-Policy", content=policy),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("meta", name="color-scheme", content="light dark"),
            element("meta", name="referrer", content="no-referrer"),
            head,
            _raw("style", style),
        ),
        element("body", body, _raw("script", _json(data), type="application/json", id="data"), _raw("script", script)),
        lang="en",
    )
    return f"<!doctype html>\n{tostring(page, encoding='unicode', method='html')}\n"


def _raw(tag: str, text: str, **attributes: str) -> Element:
    """A style or a script, whose text is not escaped; it must not hold what would end it."""
    made = element(tag, **attributes)
    made.text = text
    return made


def _json(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).translate(_JSON_ESCAPES)


def _digest(text: str) -> str:
    """How a policy names an inline style or script (https://www.w3.org/TR/CSP3/#grammardef-hash-source)."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}"
