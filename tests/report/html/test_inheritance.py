"""The tree of files: each below its base, whether it was looked at by itself or not."""

from __future__ import annotations

from xml.etree.ElementTree import tostring

from omnicfg.overview import ProfileView
from omnicfg.report.html.inheritance import forest, inheritance_section


def view(*files: str, findings: tuple[int, ...] = ()) -> ProfileView:
    return ProfileView(files[0], files, "qwen3_tts", (), {}, findings, None)


VIEWS = (
    view("ours.yaml", "turn.yaml", "base.yaml"),
    view("turn.yaml", "base.yaml"),
    view("alone.yaml", findings=(1, 2)),
)


def test_every_file_stands_below_its_base() -> None:
    children, roots = forest(VIEWS)
    assert children == {"alone.yaml": [], "base.yaml": ["turn.yaml"], "ours.yaml": [], "turn.yaml": ["ours.yaml"]}
    assert roots == ["alone.yaml", "base.yaml"]


def test_files_that_were_looked_at_lead_to_their_values() -> None:
    section = inheritance_section(VIEWS)
    links = {link.findtext("code"): link.get("data-profile") for link in section.iter("a")}
    assert links == {"ours.yaml": "0", "turn.yaml": "1", "alone.yaml": "2"}
    text = tostring(section, encoding="unicode", method="text")
    assert "base.yaml not looked at by itself" in text
    assert "1 file without a base, on which nothing here builds" in text
    assert "alone.yaml 2 findings" in text


def test_files_without_bases_make_no_tree() -> None:
    section = inheritance_section(VIEWS[2:])
    assert "No profile here builds on another one." in tostring(section, encoding="unicode", method="text")
    assert section.find("ul[@class='tree']") is None
