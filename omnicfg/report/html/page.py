"""The page: what matters first, then every value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final
from xml.etree.ElementTree import Element

from omnicfg import __version__
from omnicfg.catalog.upstream import VLLM_OMNI
from omnicfg.diagnostics import summarize
from omnicfg.overview import Overview
from omnicfg.report.html.changes import changes_section
from omnicfg.report.html.elements import Child, document, element
from omnicfg.report.html.findings import findings_section
from omnicfg.report.html.inheritance import inheritance_section
from omnicfg.report.html.matrix import matrix_data
from omnicfg.report.terminal import one_line
from omnicfg.wording import counted, plural

_SET_BY: Final = (
    ("", "anything"),
    ("profile base overlay platform", "a file"),
    ("platform", "a platform's block"),
    ("base", "a base"),
    ("topology", "the topology"),
    ("default,vllm default", "a default"),
)


def render_page(overview: Overview) -> str:
    """The whole page as text. The same overview gives the same bytes."""
    title = _title(overview)
    return document([element("title", f"{title} - omnicfg report")], _body(overview, title), matrix_data(overview))


def _title(overview: Overview) -> str:
    count, platforms = len(overview.profiles), overview.platforms
    where = platforms[0] if len(platforms) == 1 else f"{len(platforms)} platforms"
    return f"{counted(count, 'profile')} on {where}"


def _body(overview: Overview, title: str) -> Iterator[Child]:
    sections = list(_sections(overview))
    if overview.profiles:
        yield element("a", "Skip to the matrix of values", href="#matrix", class_="skip")
    yield element(
        "header",
        element("p", element("b", "omnicfg"), " report", class_="brand"),
        _navigation(sections),
        _search() if overview.profiles else None,
        class_="bar",
    )
    yield element(
        "main",
        element("h1", title),
        element("p", _lead(overview), class_="lead"),
        element("ul", [_tile(*tile) for tile in _tiles(overview)], class_="tiles") if overview.profiles else None,
        sections,
    )
    yield element("footer", element("p", f"omnicfg {__version__}; values as vLLM-Omni {VLLM_OMNI} resolves them."))


def _sections(overview: Overview) -> Iterator[Element]:
    if overview.difference is not None:
        yield changes_section(overview.difference, overview.platforms)
    if not overview.profiles:
        yield element("p", "No profiles found: no YAML file there looks like one.", class_="empty", id="findings")
        return
    yield findings_section(overview.report.findings)
    yield _matrix(overview)
    yield inheritance_section(overview.profiles)


def _navigation(sections: Sequence[Element]) -> Element:
    links = [(section.get("id", ""), heading.text or "") for section in sections for heading in section.findall("h2")]
    items = [element("li", element("a", text, href=f"#{target}")) for target, text in links]
    return element("nav", element("ul", items), aria_label="Sections")


def _search() -> Element:
    return element(
        "search",
        element("label", "Search", for_="q", class_="sr"),
        element(
            "input",
            type="search",
            id="q",
            placeholder="Search settings, values, files, findings",
            autocomplete="off",
            spellcheck="false",
        ),
    )


def _lead(overview: Overview) -> str:
    base = f", compared with {one_line(overview.difference.before)}" if overview.difference else ""
    names = f"on {', '.join(overview.platforms)}" if len(overview.platforms) > 1 else ""
    of = counted(len({view.pipeline for view in overview.profiles if view.pipeline}), "pipeline")
    return " ".join(part for part in (of, names) if part) + base + "."


def _tiles(overview: Overview) -> Iterator[tuple[str, str, str, str]]:
    """For each figure: its number, what it counts, its look, and where to."""
    for severity, count in summarize(overview.report.findings).items():
        yield str(count), plural(count, severity), severity if count else "none", "findings"
    if overview.difference is not None:
        count = len(overview.difference.profiles)
        what = f"profile{' differs' if count == 1 else 's differ'}"
        yield str(count), what, "changed" if count else "none", "changes"
    refused = sum(bool(view.refused) for view in overview.profiles)
    yield str(refused), "refused on a platform", "broken" if refused else "none", "matrix"


def _tile(number: str, what: str, look: str, target: str) -> Element:
    link = element("a", element("span", number, class_="number"), " ", element("span", what), href=f"#{target}")
    return element("li", link, class_=f"tile {look}")


def _matrix(overview: Overview) -> Element:
    return element(
        "section",
        element("h2", "Values", id="h-matrix"),
        element(
            "p",
            "Every setting of every stage. Point at a value, or move to it with the arrow keys, to see who set it and "
            "what it won against; Enter goes to its finding, Escape closes. A bar on the left of a value says that it "
            "is not what most platforms have" + (", Δ that it has changed." if overview.difference else "."),
            id="matrix-help",
            class_="lead",
        ),
        element("noscript", element("p", "The table of values needs JavaScript; the rest of this page does not.")),
        _filters(overview),
        element("p", id="status", role="status", aria_live="polite"),
        element("div", element("table", id="grid", role="grid", aria_labelledby="h-matrix"), class_="scroll grid"),
        element("div", id="tip", role="tooltip", hidden=True),
        id="matrix",
        aria_labelledby="h-matrix",
    )


def _filters(overview: Overview) -> Element:
    has_several = len(overview.platforms) > 1
    checks = [("found", "with findings")]
    checks += [("differs", "not the same on all platforms")] if has_several else []
    checks += [("changed", "changed")] if overview.difference is not None else []
    platforms = [("", "all"), *((name, name) for name in overview.platforms)]
    return element(
        "form",
        _select("platform", "Platform", platforms) if has_several else None,
        _select("set-by", "Set by", _SET_BY),
        [element("label", element("input", type="checkbox", id=name), f" {text}") for name, text in checks],
        element(
            "span",
            element("button", "Expand all", type="button", id="expand"),
            element("button", "Collapse all", type="button", id="collapse"),
            element("button", "Reset", type="button", id="start-over"),
            class_="buttons",
        ),
        class_="filters",
        id="filters",
        aria_label="Filter the values",
    )


def _select(name: str, label: str, options: Sequence[tuple[str, str]]) -> Element:
    made = [element("option", text, value=value) for value, text in options]
    return element("label", f"{label} ", element("select", made, id=name))
