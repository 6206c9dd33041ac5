"""Every page: the commands print what it shows, the Python examples hold, and the links lead somewhere."""

from __future__ import annotations

import difflib
import re
from pathlib import Path

import pytest

from tests.docs.examples import ROOT, blocks, commands, doctest_failures, is_doctest, renewed, workspace
from tests.docs.reading import complaints

# Reference pages on single rules show what their exporter printed; its own test keeps them current.
PAGES = sorted(
    [*ROOT.glob("*.md"), *(path for path in ROOT.glob("docs/**/*.md") if path.parent.name != "rules")],
    key=lambda path: path.relative_to(ROOT).as_posix(),
)


def needing(what: str) -> list[Path]:
    """The pages with blocks that need it."""
    return [path for path in PAGES if any(block.needs == what for block in blocks(path.read_text(encoding="utf-8")))]


LINKED = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])

_LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_OURS = re.compile(r"`(?P<path>(?:omnicfg|tests|docs|profiles|schemas|benchmarks)/[\w./-]*[\w/])`")
_HEADING = re.compile(r"^#+ (?P<text>.+)$", re.M)


def page_id(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", PAGES, ids=page_id)
def test_commands_print_what_the_page_shows(path: Path) -> None:
    page = path.read_text(encoding="utf-8")
    if not any(block.language == "console" for block in blocks(page)):
        return
    with workspace() as work:
        now = renewed(page, work)
    changed = difflib.unified_diff(page.splitlines(), now.splitlines(), "shown", "printed now", lineterm="")
    assert page == now, "\n".join([*changed, f"`python -m tests.docs.examples {page_id(path)}` renews it"])


@pytest.mark.slow
@pytest.mark.parametrize("path", needing("vllm"), ids=page_id)
def test_servers_answer_what_the_page_shows(path: Path) -> None:
    pytest.importorskip("vllm")
    page = path.read_text(encoding="utf-8")
    with workspace() as work:
        now = renewed(page, work, "vllm")
    changed = difflib.unified_diff(page.splitlines(), now.splitlines(), "shown", "answered now", lineterm="")
    assert page == now, "\n".join([*changed, f"`python -m tests.docs.examples --has=vllm {page_id(path)}` renews it"])


@pytest.mark.slow
@pytest.mark.parametrize("path", needing("checkout"), ids=page_id)
def test_contributors_get_what_the_page_promises(
    path: Path, upstream_deploy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMNICFG_UPSTREAM_DEPLOY", str(upstream_deploy))
    page = path.read_text(encoding="utf-8")
    with workspace(checkout=True) as work:
        now = renewed(page, work, "checkout")
    changed = difflib.unified_diff(page.splitlines(), now.splitlines(), "shown", "printed now", lineterm="")
    assert page == now, "\n".join(
        [*changed, f"`python -m tests.docs.examples --has=checkout {page_id(path)}` renews it"]
    )


@pytest.mark.parametrize("path", PAGES, ids=page_id)
def test_every_block_is_run_or_names_why_it_is_not(path: Path) -> None:
    assert list(complaints(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize("path", PAGES, ids=page_id)
def test_python_examples_hold(path: Path) -> None:
    page = path.read_text(encoding="utf-8")
    if not any(is_doctest(block) for block in blocks(page)):
        return
    with workspace() as work:
        assert doctest_failures(page, page_id(path), work) == []


@pytest.mark.parametrize("path", LINKED, ids=page_id)
def test_links_lead_somewhere(path: Path) -> None:
    dead = [target for target in links(path.read_text(encoding="utf-8")) if not exists(path, target)]
    assert dead == []


@pytest.mark.parametrize("path", PAGES, ids=page_id)
def test_files_of_the_repository_that_a_page_names_are_there(path: Path) -> None:
    named = {match["path"] for match in _OURS.finditer(path.read_text(encoding="utf-8"))}
    assert sorted(name for name in named if not (ROOT / name).exists()) == []


def test_the_reference_lists_every_schema() -> None:
    listed = links((ROOT / "docs" / "reference.md").read_text(encoding="utf-8"))
    assert {f"../schemas/{path.name}" for path in ROOT.glob("schemas/*.schema.json")} <= set(listed)


@pytest.mark.parametrize("path", PAGES, ids=page_id)
def test_jobs_read_nothing_outside_of_their_checkout(path: Path) -> None:
    jobs = re.findall(r"^```yaml.*?^```", path.read_text(encoding="utf-8"), flags=re.S | re.M)
    asked = [line for job in jobs for line in job.splitlines() if re.search(r'omnicfg"? (validate|diff|report) ', line)]
    assert [line for line in asked if "--root ." not in line] == []


def links(page: str) -> list[str]:
    """The targets within the repository, outside of code."""
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", page, flags=re.S)
    return [match["target"] for match in _LINK.finditer(prose) if not match["target"].startswith("http")]


def exists(page: Path, target: str) -> bool:
    name, _, anchor = target.partition("#")
    path = (page.parent / name).resolve() if name else page
    if not path.exists() or not path.is_relative_to(ROOT):
        return False
    return not anchor or anchor in anchors(path)


def anchors(path: Path) -> set[str]:
    """What a link into a page may name: headings, as GitHub names them."""
    page = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.S | re.M)
    return {re.sub(r"[^\w\- ]", "", match["text"].lower()).replace(" ", "-") for match in _HEADING.finditer(page)}


def test_a_block_of_commands_is_taken_apart() -> None:
    first, second = commands("$ a \\\n> b\nout\n> put\n$ c\n")
    assert first.script == "a \\\nb"
    assert first.output == "out\n> put\n"
    assert second.script == "c"
    assert second.output == ""
    with pytest.raises(ValueError, match="begins with"):
        commands("output\n")


def test_examples_are_run_in_order_in_one_place() -> None:
    page = (
        'Text.\n\n```yaml title="a.yaml"\npipeline: qwen3_tts\nasync_chunk: false\n```\n\n'
        "```console\n$ cat a.yaml\nold\n$ false\n$ echo $?\n$ printf x\n```\n"
    )
    with workspace() as work:
        assert renewed(page, work) == page.replace(
            "$ cat a.yaml\nold\n$ false\n$ echo $?\n$ printf x\n",
            "$ cat a.yaml\npipeline: qwen3_tts\nasync_chunk: false\n$ false\n$ echo $?\n1\n$ printf x\nx\n",
        )


def test_a_wrong_python_example_is_found() -> None:
    page = "```python\n>>> x = 1\n```\n\nText.\n\n```python\n>>> x + 1\n2\n>>> x\n2\n```\n"
    with workspace() as work:
        told = "".join(doctest_failures(page, "page.md", work))
    assert "Expected:\n    2\nGot:\n    1" in told
    assert told.count("Failed example") == 1
