"""The documentation as a site: every page is reached, every link leads somewhere, nothing is fetched from elsewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.examples import ROOT

KINDS = ("tutorials", "how-to", "reference", "explanation")
_FETCHED = re.compile(r'<(?:script|img|link)\b[^>]*\b(?:src|href)="(?P<url>https?://[^"]+)"')
_TARGET = re.compile(r'href="(?P<target>[^"#:]+\.html)(?:#(?P<anchor>[^"]+))?"')
_ID = re.compile(r'\bid="([^"]+)"')


def build(root: Path, out: Path, builder: str = "html") -> subprocess.CompletedProcess[str]:
    """Build as `make docs` does: warnings are errors."""
    words = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet", "-b", builder]
    return subprocess.run(
        [*words, "-c", str(root / "docs"), "-d", str(out / "doctrees"), str(root), str(out / "html")],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    done = build(ROOT, out)
    assert done.returncode == 0, done.stderr
    return out / "html"


def test_the_front_page_leads_to_the_four_kinds_and_is_reached_from_the_root(site: Path) -> None:
    assert 'url=docs/index.html"' in (site / "index.html").read_text(encoding="utf-8")
    front = (site / "docs/index.html").read_text(encoding="utf-8")
    assert [kind for kind in KINDS if f'href="{kind}.html"' in front] == list(KINDS)


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    fetched = {
        match["url"] for page in site.rglob("*.html") for match in _FETCHED.finditer(page.read_text(encoding="utf-8"))
    }
    assert fetched == set()


def test_links_between_the_pages_of_the_site_lead_to_a_place_there(site: Path) -> None:
    ids = {page: set(_ID.findall(page.read_text(encoding="utf-8"))) for page in site.rglob("*.html")}
    dead = [
        f"{page.relative_to(site)}: {match[0]}"
        for page in ids
        for match in _TARGET.finditer(page.read_text(encoding="utf-8"))
        if (to := (page.parent / match["target"]).resolve()) not in ids
        or (match["anchor"] and match["anchor"] not in ids[to])
    ]
    assert dead == []


def test_files_are_named_above_the_blocks_that_hold_them(site: Path) -> None:
    page = (site / "docs/first-profile.html").read_text(encoding="utf-8")
    assert re.search(r'class="caption-text">ours\.yaml<', page)
    assert "not-run" not in page


def test_links_and_anchors_that_lead_nowhere_and_pages_that_none_lists_are_errors(tmp_path: Path) -> None:
    page = "# A page\n\n[a](nowhere.md)\n\n[b](index.md#b)\n\n[c](#c)\n\n![d](d.svg)\n"
    done = built_with(tmp_path, "# Front\n\nSee [a page](page.md).\n", page)
    assert done.returncode != 0
    told = {re.sub(r"^.*/docs/", "", line).split(": ", maxsplit=1)[0] for line in done.stderr.splitlines()}
    assert told == {"page.md", "page.md:3", "page.md:5", "page.md:7", "page.md:9"}
    assert "document isn't included in any toctree" in done.stderr


def test_pages_that_are_listed_and_linked_well_are_built(tmp_path: Path) -> None:
    done = built_with(tmp_path, "# Front\n\n- **[A page](page.md)**: it\n", "# A page\n\nSee [it](index.md#front).\n")
    assert (done.returncode, done.stderr) == (0, "")


def built_with(folder: Path, index: str, page: str) -> subprocess.CompletedProcess[str]:
    """A site of two pages, by the configuration of this one."""
    for name in ("docs/conf.py", "docs/_static/site.css", "docs/_templates/to_front_page.html"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text((ROOT / name).read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "docs/index.md").write_text(index, encoding="utf-8")
    (folder / "docs/page.md").write_text(page, encoding="utf-8")
    return build(folder, folder / "out", builder="dummy")
