"""Which file builds on which, as a tree: nested lists, which every reader and printer understands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from xml.etree.ElementTree import Element

from omnicfg.overview import ProfileView
from omnicfg.report.html.elements import Child, element
from omnicfg.report.terminal import one_line
from omnicfg.wording import counted


def inheritance_section(profiles: Sequence[ProfileView]) -> Element:
    """Every base with all that is built on it; files that stand alone are named together."""
    children, roots = forest(profiles)
    numbers = {view.name: index for index, view in enumerate(profiles)}
    trees = [root for root in roots if children[root]]
    alone = [root for root in roots if not children[root]]
    return element(
        "section",
        element("h2", "Inheritance", id="h-inheritance"),
        element("p", "No profile here builds on another one.", class_="empty") if not trees else None,
        element("ul", [_node(root, children, profiles, numbers) for root in trees], class_="tree") if trees else None,
        _alone(alone, profiles, numbers) if alone else None,
        id="inheritance",
        aria_labelledby="h-inheritance",
    )


def forest(profiles: Sequence[ProfileView]) -> tuple[dict[str, list[str]], list[str]]:
    """The files built on each file, and those that build on none; every file by its name, in order."""
    base_of: dict[str, str | None] = {}
    for view in profiles:
        for file, base in zip(view.files, (*view.files[1:], None), strict=True):
            base_of[file] = base_of.get(file) or base
    children: dict[str, list[str]] = {file: [] for file in sorted(base_of)}
    for file in children:
        base = base_of[file]
        if base is not None:
            children[base].append(file)
    return children, [file for file in children if base_of[file] is None]


def _node(
    file: str, children: Mapping[str, Sequence[str]], profiles: Sequence[ProfileView], numbers: Mapping[str, int]
) -> Element:
    below = [_node(child, children, profiles, numbers) for child in children[file]]
    return element("li", _label(file, profiles, numbers), element("ul", below) if below else None)


def _label(file: str, profiles: Sequence[ProfileView], numbers: Mapping[str, int]) -> list[Child]:
    """The file; where it is one of the profiles, a way to its values, and what is to be known of it."""
    if file not in numbers:
        return [element("code", one_line(file)), " ", element("span", "not looked at by itself", class_="note-text")]
    view = profiles[numbers[file]]
    marks: list[Child] = []
    if view.findings:
        marks.append(element("span", counted(len(view.findings), "finding"), class_="badge plain"))
    if view.change is not None:
        by = "differs by inheritance" if view.change.inherited_from else "differs"
        marks.append(element("span", by, class_="badge changed"))
    link = element("a", element("code", one_line(file)), href="#matrix", data_profile=str(numbers[file]))
    return [link, *(part for mark in marks for part in (" ", mark))]


def _alone(files: Sequence[str], profiles: Sequence[ProfileView], numbers: Mapping[str, int]) -> Element:
    return element(
        "details",
        element("summary", f"{counted(len(files), 'file')} without a base, on which nothing here builds"),
        element("ul", [element("li", _label(file, profiles, numbers)) for file in files], class_="alone"),
        class_="file",
    )
