"""The documentation as a site: `make docs` builds it, `tests/docs/test_site.py` too.

Sources are read from the root of the repository (`sphinx-build -c docs . OUT`), so that a link means the same here and
where the files are shown as they are. Navigation has no list of its own: it is what the pages list that lead to others.
A page that none of them lists is an error, and so is a link or an anchor that leads nowhere.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_ROOT: Final = Path(__file__).resolve().parents[1]
_RULES: Final = ("docs/rules/index", "docs/rules/refusals", "docs/rules/commands")
# The pages that lead to others. Rules are listed in tables, everything else in lists.
_KINDS: Final = ("docs/tutorials", "docs/how-to", "docs/reference", "docs/explanation")
_LEADING: Final = ("docs/index", *_KINDS, *_RULES, "docs/currency")
_LISTED: Final = re.compile(r"^(?:- \**|\| )\[[^\]]*\]\((?P<page>[^)#:]+\.md)\)", re.M)
_TITLED: Final = re.compile(r'^(?P<fence>```)(?P<language>\w+) title="(?P<title>[^"]+)"$', re.M)
_MARK: Final = re.compile(r'^(?P<fence> *```\w+) (?:not-run|needs)="[^"]+"$', re.M)

project = "omnicfg"
author = "the omnicfg authors"
copyright = author  # a name that Sphinx gives
root_doc = "docs/index"
include_patterns = ["docs/**", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"]
exclude_patterns = [path.name for path in _ROOT.iterdir() if path.is_dir() and path.name != "docs"]
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
nitpicky = True
# A shell word of several lines is none to the highlighter, which colours the rest all the same. What is no YAML, JSON
# or TOML, tests/docs tell.
suppress_warnings = ["misc.highlighting_failure"]
myst_heading_anchors = 4
smartquotes = False  # would make a dash of `--git`

html_theme = "pydata_sphinx_theme"
html_title = project
html_static_path = ["_static"]
html_css_files = ["site.css"]
templates_path = ["_templates"]
html_additional_pages = {"index": "to_front_page.html"}
html_sidebars: dict[str, list[str]] = {"docs/index": []}
html_copy_source = False
html_show_sourcelink = False
html_context = {"default_mode": "auto"}  # light or dark, as the reader's system is
html_theme_options: dict[str, Any] = {
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "back_to_top_button": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "github_url": "https://github.com/omnicfg/omnicfg",
}


def navigation(page: str) -> str:
    """The toctree of a page that leads to others: the pages that it lists, in their order."""
    listed = "\n".join(match["page"] for match in _LISTED.finditer(page))
    return f"\n\n```{{toctree}}\n:hidden:\n\n{listed}\n```\n"


def captions(page: str) -> str:
    """The page with the names of files above the blocks that hold them, and without the marks of its tests."""
    named = _TITLED.sub(r"\g<fence>{code-block} \g<language>\n:caption: \g<title>\n", page)
    return _MARK.sub(r"\g<fence>", named)


def _read(_app: Sphinx, name: str, source: list[str]) -> None:
    source[0] = captions(source[0]) + (navigation(source[0]) if name in _LEADING else "")


def setup(app: Sphinx) -> None:
    """What Sphinx calls."""
    app.connect("source-read", _read)
