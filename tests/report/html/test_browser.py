"""The report in a real browser: contents, search, filters, pointer, keyboard, paper, dark, and who cannot see it.

``--update-snapshots`` renews the pictures of docs/html-report.md.
"""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image, ImageStat
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.select import Select

from omnicfg.cli import run
from tests.docs.examples import ROOT, Workspace, workspace
from tests.patience import at_best
from tests.report.html.browser import Browser, running

pytestmark = pytest.mark.slow

PICTURES = ROOT / "docs" / "pictures"
HOSTILE = '</script><img src=x onerror="window.pwned=1">'
OURS = "base_config: profiles/minicpmo_4_5_turn.yaml\nmodel_runner: v2\nstages:\n  - stage_id: 0\n    max_num_seq: 8\n"


@pytest.fixture(scope="module")
def browser(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    keeps = pytestconfig.pluginmanager.hasplugin("cacheprovider")
    with running(pytestconfig.cache.mkdir("axe") if keeps else tmp_path_factory.mktemp("axe")) as started:
        yield started


@pytest.fixture(scope="module")
def example() -> Iterator[Path]:
    """The report of the documentation: the shipped profiles and one more, one line of a base changed."""
    with workspace() as work:
        yield example_report(work)


def example_report(work: Workspace) -> Path:
    work.write("ours.yaml", OURS)
    told = work.run(
        [
            "git add . && git commit -q -m ours",
            "sed -i '12s/false/true/' profiles/minicpmo_4_5.yaml",
            "omnicfg report ours.yaml profiles --git HEAD --out report.html",
        ]
    )
    assert "Written to report.html" in told[-1]
    return work.folder / "report.html"


@pytest.fixture
def page(browser: Browser, example: Path) -> Iterator[Browser]:
    """The example, opened anew; afterwards nothing may have gone wrong in it, and nothing been asked for."""
    browser.open(example)
    yield browser
    assert browser.complaints() == []
    assert {url.partition(":")[0] for url in browser.requests()} <= {"file", "data"}


def search(page: Browser, words: str) -> None:
    field = page.one("#q")
    field.send_keys(Keys.CONTROL, "a")
    field.send_keys(words)


def cells(page: Browser, key: str) -> list[WebElement]:
    """The cells of the first setting of that key in `ours.yaml`."""
    found = page.script(
        """
        const rows = [...document.querySelectorAll("#grid tbody tr")];
        const start = rows.findIndex((row) => row.querySelector(".toggle")?.textContent === arguments[0]);
        const names = (each) => each.matches(".setting") && each.querySelector("th").textContent === arguments[1];
        const row = rows.slice(start).find(names);
        return row ? [...row.querySelectorAll("td")] : [];
        """,
        "ours.yaml",
        key,
    )
    return list(found)


def headings(page: Browser) -> list[str]:
    return page.texts("h2")


# ------------------------------------------------------------------------------------------------------- contents
def test_what_matters_comes_first(page: Browser) -> None:
    assert page.one("h1").text == "30 profiles on 5 platforms"
    assert headings(page) == ["What changes", "Findings", "Values", "Inheritance"]
    tiles = [text.replace("\n", " ") for text in page.texts(".tile")]
    assert tiles == ["5 errors", "5 warnings", "11 notes", "5 profiles differ", "1 refused on a platform"]


def test_every_profile_is_a_line_until_it_is_opened(page: Browser) -> None:
    assert page.one("#status").text == "3,569 settings in 30 profiles."
    assert len(page.all("#grid tr.profile")) == 30
    assert page.all("#grid tr.setting") == []
    toggle = page.one("#grid .toggle")
    toggle.click()
    assert page.one("#grid .toggle").get_attribute("aria-expanded") == "true"
    assert page.texts("#grid tr.block th")[:2] == ["pipeline-wide", "stage 0: llm (llm, ar)"]
    values = [" ".join(cell.text.split()) for cell in cells(page, "max_num_seqs")]
    refused = "\N{EN DASH} does not compile"
    assert values == ["4 base", refused, "4 base", refused, "4 base"]
    assert page.texts("#grid tr.profile:first-child .refused") == ["does not compile", "does not compile"]


def test_what_changes_is_told_with_what_is_known_of_it(page: Browser) -> None:
    first = page.one("#changes .file")
    assert "ours.yaml" in first.text
    assert "only by inheritance, from profiles/minicpmo_4_5.yaml" in first.text
    row = first.find_elements("css selector", "tbody tr")[1].text
    assert "enable_prefix_caching" in row
    assert "base, profiles/minicpmo_4_5.yaml:12:24" in row
    assert "broken: Static review of talker and TTS stages" in row


def test_findings_stand_at_their_line_and_at_their_value(page: Browser) -> None:
    finding = next(each for each in page.all(".finding") if "unknown key max_num_seq" in each.text)
    assert finding.find_element("css selector", ".message code").text == "max_num_seq"
    assert finding.find_element("css selector", ".excerpt mark").text == "max_num_seq"
    assert "Did you mean max_num_seqs?" in finding.text
    page.one("#grid .toggle").click()
    links = page.texts("#grid tr.about a")
    assert links == ["OC101 unknown key max_num_seq in stage 0"]
    runner = cells(page, "model_runner")[0]
    assert runner.text.split() == ["v2", "profile", "warning"]


def test_the_tree_tells_what_builds_on_what(page: Browser) -> None:
    tree = page.texts(".tree")[0].splitlines()
    assert tree[0].startswith("profiles/minicpmo_4_5.yaml")
    assert any(line.startswith("ours.yaml") and "differs by inheritance" in line for line in tree)
    link = next(each for each in page.all(".tree a") if each.text == "profiles/qwen3_tts_v1.yaml")
    link.click()
    focused = page.script("return document.activeElement")
    assert focused.text == "profiles/qwen3_tts_v1.yaml"
    assert focused.get_attribute("aria-expanded") == "true"


# ------------------------------------------------------------------------------------------------ search and filters
def test_search_looks_into_values_findings_and_changes(page: Browser) -> None:
    search(page, "prefix turn_mrv2")
    assert page.one("#status").text.startswith("8 of 3,569 settings in 2 of 30 profiles")
    assert set(page.texts("#grid tr.setting th")) == {"enable_prefix_caching"}
    mrv2 = "profiles/minicpmo_4_5_turn_mrv2"
    assert page.texts("#changes .path") == [f"{mrv2}.yaml", f"{mrv2}_h200.yaml"]
    search(page, "nothing holds these words")
    assert page.texts("#grid tbody") == ["Nothing fits."]
    assert page.texts(".nothing") == ["Nothing here fits the search."] * 2
    search(page, "minicpmo_4_5.yaml:12:24")  # a place
    assert set(page.texts("#grid tr.setting th")) == {"enable_prefix_caching"}
    page.one("#start-over").click()
    assert page.one("#status").text == "3,569 settings in 30 profiles."
    assert len(page.texts("#changes .path")) == 5


def test_filters_of_values(page: Browser) -> None:
    Select(page.one("#platform")).select_by_visible_text("npu")
    assert page.texts("#grid thead th") == ["Setting", "npu"]
    Select(page.one("#platform")).select_by_visible_text("all")
    page.one("#changed").click()
    assert {text.split("\n")[0].split(" ")[0] for text in page.texts("#grid tr.profile th")} == {
        "ours.yaml",
        *(f"profiles/minicpmo_4_5{suffix}.yaml" for suffix in ("", "_turn", "_turn_mrv2", "_turn_mrv2_h200")),
    }
    assert all("changed" in row for row in page.texts("#grid tr.setting"))
    page.one("#changed").click()
    page.one("#found").click()
    assert "model_runner" in page.texts("#grid tr.setting th")
    assert all(any(word in row for word in ("error", "warning", "note")) for row in page.texts("#grid tr.setting"))
    page.one("#found").click()
    Select(page.one("#set-by")).select_by_visible_text("a platform's block")
    page.one("#differs").click()
    assert "platform" in page.texts("#grid tr.setting")[0]


def test_severities_are_shown_and_hidden(page: Browser) -> None:
    shown = [len(page.texts(f"#findings .finding.{severity}")) for severity in ("error", "warning", "note")]
    chip = page.one(".chip.error")
    assert chip.text == "5 errors"
    chip.click()
    assert chip.get_attribute("aria-pressed") == "false"
    assert page.texts("#findings .finding.error") == []
    chip.click()
    assert len(page.texts("#findings .finding.error")) == shown[0] > 0


# ------------------------------------------------------------------------------------------------ pointer and keyboard
def test_pointing_at_a_value_tells_the_chain_behind_it(page: Browser) -> None:
    search(page, "ours.yaml enable_prefix_caching stage 0")
    page.point_at(cells(page, "enable_prefix_caching")[0])
    page.wait_for("!document.getElementById('tip').hidden")
    told = page.one("#tip").text
    assert "stage 0: llm (llm, ar), on cuda" in told
    assert "set by platform cuda, profiles/minicpmo_4_5_turn.yaml:12:32" in told
    assert "lost, set by base, profiles/minicpmo_4_5.yaml:12:24" in told
    assert "Known of it here: broken: 79 of 80 requests" in told
    assert "OC501 the prefix cache of stage 0" in told
    page.point_at(page.one("#tip h3"))  # what it tells can be reached, and stays
    time.sleep(0.5)
    assert page.one("#tip").is_displayed()
    page.point_at(page.one(".brand"))
    page.wait_for("document.getElementById('tip').hidden")


def test_the_keyboard_reaches_every_value(page: Browser) -> None:
    search(page, "ours.yaml enable_prefix_caching")
    page.script("document.getElementById('start-over').focus()")
    page.keys(Keys.TAB)
    assert page.script("return document.activeElement.textContent") == "ours.yaml"
    page.keys(Keys.ARROW_DOWN)
    first = page.script("return document.activeElement")
    assert (first.tag_name, first.get_attribute("aria-describedby")) == ("td", "tip")
    assert page.one("#tip").is_displayed()
    page.keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert "on rocm" in page.one("#tip").text
    page.keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN)  # over the finding above it
    assert "stage 0: llm (llm, ar), on rocm" in page.one("#tip").text
    page.keys(Keys.ESCAPE)
    assert not page.one("#tip").is_displayed()
    page.keys(Keys.END)
    assert "on musa" in page.one("#tip").text
    page.keys(Keys.ENTER)
    finding = page.script("return document.activeElement")
    assert finding.get_attribute("class") == "finding error"
    assert "OC501" in finding.text
    assert len(page.all("#grid .stop[tabindex='0']")) == 1


def test_the_focus_is_never_behind_what_stays_in_place(page: Browser) -> None:
    page.one("#grid .toggle").click()
    for key in (*[Keys.PAGE_DOWN] * 4, *[Keys.ARROW_UP] * 20):
        page.keys(key)
        hidden = page.script(
            "return document.activeElement.getBoundingClientRect().top"
            " < document.querySelector('#grid thead').getBoundingClientRect().bottom - 1"
        )
        assert not hidden


def test_header_and_first_column_stay_in_place(page: Browser) -> None:
    page.size(700, 700)
    page.one("#expand").click()
    moved = page.script(
        """
        const scroll = document.querySelector(".scroll.grid"), th = scroll.querySelector("tr.setting th");
        scroll.scrollTo({left: 120, top: 400, behavior: "instant"});
        const box = scroll.getBoundingClientRect();
        const head = scroll.querySelector("thead th").getBoundingClientRect();
        return [head.top - box.top, th.getBoundingClientRect().left - box.left, scroll.scrollLeft];
        """
    )
    assert moved[0] == pytest.approx(1, abs=1)
    assert moved[1] == pytest.approx(1, abs=1)
    assert moved[2] > 0


@pytest.mark.parametrize("width", [320, 375, 768])
def test_on_a_small_screen_every_section_is_one_tap_away(page: Browser, width: int) -> None:
    page.size(width, 700)
    links = page.all("nav a")
    assert [each.text for each in links] == ["What changes", "Findings", "Values", "Inheritance"]
    for each in links:
        each.click()
        page.wait_for("document.querySelector(location.hash).getBoundingClientRect().top < innerHeight")
        bar, head = page.script(
            """
            const heading = document.querySelector(location.hash).querySelector("h2");
            return [document.querySelector(".bar"), heading].map((each) => each.getBoundingClientRect().toJSON());
            """
        )
        assert bar["bottom"] <= head["top"] + 1
        assert (bar["width"], page.script("return document.documentElement.scrollWidth")) == (width, width)


def test_what_spans_columns_is_read_wherever_the_table_is_scrolled_to(page: Browser) -> None:
    page.size(375, 700)
    page.one("#expand").click()
    lefts = page.script(
        """
        const scroll = document.querySelector(".scroll.grid");
        scroll.scrollTo({left: 300, behavior: "instant"});
        const left = (selector) => scroll.querySelector(selector).getBoundingClientRect().left;
        const about = scroll.querySelector("tr.about .stay").getBoundingClientRect();
        const box = scroll.getBoundingClientRect();
        const edge = scroll.querySelector("tr.setting th").getBoundingClientRect();
        return [left("tr.block .stay") - box.left, about.left - box.left, box.right - about.right,
          left("td.value[colspan='5'] .face") - edge.right, scroll.scrollLeft];
        """
    )
    assert min(lefts[:4]) >= 0
    assert max(lefts[:4]) < 375
    assert lefts[4] == 300


def test_long_values_are_cut_and_told_whole(browser: Browser, tmp_path: Path) -> None:
    long, key = "v" * 300, "k" * 250
    (tmp_path / "long.yaml").write_text(
        f"pipeline: qwen3_tts\nstages:\n  - stage_id: 0\n    {key}: {long}\n", encoding="utf-8"
    )
    browser.open(report_of(tmp_path))
    cell = browser.script(
        "return [...document.querySelectorAll('td.value')].find((each) => each.textContent.includes('vvv'))"
    )
    assert browser.script(
        "const code = arguments[0].querySelector('code'); return code.scrollWidth > code.clientWidth", cell
    )
    assert cell.size["height"] < 40
    browser.script("arguments[0].focus()", cell)
    told = browser.one("#tip").text
    assert long in told
    assert key in told
    assert browser.complaints() == []


# -------------------------------------------------------------------------------------------------- other readers
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_finds_nothing_wrong(page: Browser, dark: bool) -> None:
    page.media(dark=dark)
    assert page.violations() == []
    page.script("for (const each of document.querySelectorAll('details')) each.open = true")
    search(page, "ours.yaml")
    page.script("arguments[0].focus()", cells(page, "enable_prefix_caching")[0])
    assert page.one("#tip").is_displayed()
    assert page.violations() == []


def test_a_screen_reader_is_told_what_a_value_is_and_where_it_comes_from(page: Browser) -> None:
    search(page, "ours.yaml enable_prefix_caching")
    page.script("arguments[0].focus()", cells(page, "enable_prefix_caching")[0])
    nodes = page.command("Accessibility.getFullAXTree")["nodes"]
    told = [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes if "role" in node]
    assert {("grid", "Values"), ("columnheader", "npu"), ("search", ""), ("navigation", "Sections")} <= {*told}
    assert ("rowheader", "ours.yaml minicpmo_4_5 4 errors 2 warnings 1 note changed") in told
    focused = [node for node in nodes if node.get("description", {}).get("value")]
    assert [(node["role"]["value"], node["name"]["value"]) for node in focused] == [
        ("gridcell", "true base \u0394 changed")
    ]
    description = focused[0]["description"]["value"]
    assert "on cuda true set by base, profiles/minicpmo_4_5.yaml:12:24 before false" in description


def test_dark_is_dark(page: Browser) -> None:
    def brightness() -> float:
        return ImageStat.Stat(Image.open(io.BytesIO(page.picture())).convert("L")).mean[0]

    light = brightness()
    page.media(dark=True)
    assert brightness() < 60 < 200 < light


def test_on_paper_everything_is_unfolded_and_light(page: Browser) -> None:
    page.script(
        "addEventListener('beforeprint', () => { window.unfolded = !document.querySelector('details:not([open])'); })"
    )
    search(page, "max_")
    settings = int(page.one("#status").text.split()[0])
    assert len(page.all("#grid tr.setting")) < settings  # the rest is made when it is asked for
    page.command("Page.printToPDF", preferCSSPageSize=True)
    assert len(page.all("#grid tr.setting")) == settings
    assert page.script("return window.unfolded") is True
    page.media(dark=True, printed=True)
    look = "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]"
    assert page.script(look, ".bar", "display") == "none"
    assert page.script(look, ".filters", "display") == "none"
    assert page.script(look, "#grid thead th", "position") == "static"
    assert page.script(look, ".scroll.grid", "maxHeight") == "none"
    assert page.script(look, "td.value", "whiteSpace") == "normal"
    assert page.script(look, "body", "backgroundColor") == "rgb(255, 255, 255)"
    assert page.script(look, "body", "color") == "rgb(0, 0, 0)"


def test_without_scripts_all_but_the_matrix_is_there(browser: Browser, example: Path) -> None:
    browser.command("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(example)
        text = browser.one("body").text
    finally:
        browser.command("Emulation.setScriptExecutionDisabled", value=False)
    assert "The table of values needs JavaScript" in text
    assert "unknown key max_num_seq in stage 0" in text
    assert "only by inheritance" in text
    assert browser.complaints() == []


# ------------------------------------------------------------------------------------------------ strangers' profiles
def test_a_hostile_profile_runs_nothing(browser: Browser, tmp_path: Path) -> None:
    quoted = HOSTILE.replace("'", "''")
    (tmp_path / "a<img src=x onerror=window.pwned=1>.yaml").write_text(
        f"pipeline: qwen3_tts\n'{quoted}': 1\n"
        f"stages:\n  - stage_id: 0\n    '{quoted}': '{quoted}'\n    max_num_seqs: '{quoted}'\n"
        f"connectors: {{'{quoted}': {{name: '{quoted}', extra: {{'{quoted}': ['{quoted}']}}}}}}\n"
        f"platforms: {{npu: {{stages: [{{stage_id: 0, '{quoted}': 'npu {quoted}'}}]}}}}\n",
        encoding="utf-8",
    )
    browser.open(report_of(tmp_path))
    for cell in browser.all("#grid td.stop"):
        browser.script("arguments[0].focus()", cell)
    assert HOSTILE in browser.one("#grid").text
    search(browser, "<img src=x onerror")
    assert browser.script("return window.pwned") is None
    assert browser.all("img") == []
    assert browser.complaints() == []
    assert browser.violations() == []


def test_the_page_s_policy_stops_what_escaping_would_let_through(
    browser: Browser, example: Path, tmp_path: Path
) -> None:
    text = example.read_text(encoding="utf-8")
    attack = "<img src=x onerror='window.pwned=1'><script>window.pwned=2</script>"
    attack += "<a href='javascript:window.pwned=3' id=bad>x</a>"
    poisoned = tmp_path / "poisoned.html"
    poisoned.write_text(text.replace("<main>", f"<main>{attack}", 1), encoding="utf-8")
    browser.open(poisoned)
    browser.one("#bad").click()
    assert browser.script("return window.pwned") is None
    assert any("Content Security Policy" in each for each in browser.complaints())


@pytest.mark.parametrize("count", [0, 1])
def test_little_is_shown_as_well(browser: Browser, tmp_path: Path, count: int) -> None:
    for number in range(count):
        (tmp_path / f"p{number}.yaml").write_text("pipeline: qwen3_tts\nstages: [{stage_id: 0}]\n", encoding="utf-8")
    browser.open(report_of(tmp_path))
    assert ("No profiles found" in browser.one("main").text) is (count == 0)
    assert browser.violations() == []
    assert browser.complaints() == []


def test_a_single_platform(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text(
        "pipeline: qwen3_tts\nstages: [{stage_id: 0, max_num_seqs: 3}]\n", encoding="utf-8"
    )
    browser.open(report_of(tmp_path, None, "--platform", "npu"))
    assert browser.texts("#grid thead th") == ["Setting", "npu"]
    assert browser.all("#platform, #differs") == []
    search(browser, "max_num_seqs")
    assert "3 profile" in browser.texts("#grid tr.setting")[0].replace("\n", " ")
    assert browser.complaints() == []


# ------------------------------------------------------------------------------------------------------------ size
def test_all_of_upstream_opens_and_filters_fast(browser: Browser, upstream_deploy: Path, tmp_path: Path) -> None:
    page = report_of(upstream_deploy, tmp_path)
    assert page.stat().st_size < 2 << 20
    timed = """
        const begin = performance.now();
        document.getElementById("expand").click();
        const middle = performance.now();
        document.getElementById("found").click();
        document.body.offsetHeight;
        return [middle - begin, performance.now() - middle];
        """

    def share() -> float:
        """Of five seconds for opening, two for expanding, one for filtering: the one that takes most of its time."""
        browser.open(page)
        loading = browser.script("return performance.getEntriesByType('navigation')[0].loadEventEnd")
        expanding, filtering = browser.script(timed)
        return float(max(loading / 5000, expanding / 2000, filtering / 1000))

    assert at_best(share, 1.0) <= 1.0
    assert len(browser.all("#grid tr")) < 300
    rows = len(browser.all("#grid tr"))
    browser.one("#start-over").click()
    browser.one("#expand").click()
    rows = len(browser.all("#grid tr"))
    browser.one("#grid .rest button").click()
    assert len(browser.all("#grid tr")) == rows + 250
    assert browser.complaints() == []


def report_of(folder: Path, out: Path | None = None, *options: str) -> Path:
    target = (out or folder) / "report.html"
    assert run(["report", str(folder), "--out", str(target), "--no-config", *options]) in (0, 1)
    return target


# -------------------------------------------------------------------------------------------------------- pictures
def test_the_pictures_of_the_documentation(page: Browser, pytestconfig: pytest.Config) -> None:
    taken = {"html-report.png": page.picture()}
    search(page, "ours.yaml enable_prefix_caching")
    page.script("document.getElementById('matrix').scrollIntoView()")
    page.script("arguments[0].focus({preventScroll: true})", cells(page, "enable_prefix_caching")[0])
    page.keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN)
    page.media(dark=True)
    taken["html-report-values.png"] = page.picture()
    for name, picture in taken.items():
        image = Image.open(io.BytesIO(picture)).convert("RGB")
        if pytestconfig.getoption("--update-snapshots"):
            image.quantize(256, dither=Image.Dither.NONE).save(PICTURES / name, optimize=True)
        committed = Image.open(PICTURES / name)
        assert committed.size == image.size
        assert (PICTURES / name).stat().st_size < 200_000
