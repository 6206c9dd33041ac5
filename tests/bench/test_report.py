"""Reports: medians, ratios of one round, tables, pictures, and two of them side by side."""

from __future__ import annotations

import builtins
import json
import re
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest

from omnicfg.bench import comparison, plots, published, tables
from omnicfg.bench.loads import Load
from omnicfg.bench.progress import Progress
from omnicfg.bench.report import report_of
from omnicfg.bench.store import Store
from omnicfg.bench.written import write
from omnicfg.catalog.paths import schemas_dir
from omnicfg.cli import main, run
from omnicfg.commands import _measuring
from omnicfg.errors import ServeError, UsageError
from omnicfg.report.terminal import Style

SCHEMA = json.loads((schemas_dir() / "bench.schema.json").read_text(encoding="utf-8"))
MACHINE = {
    "gpus": ["NVIDIA H200"],
    "cpu": "a CPU",
    "cores": 2,
    "system": "Linux x86_64",
    "versions": {"vllm": "0.32.0", "vllm-omni": None},
}
LOADS = (
    Load("P1024_h0_c1", 0, 1024, 8, 0.0, 1, "text", 1, 256, 50002),
    Load("P1024_h0_c64", 0, 1024, 8, 0.0, 1, "text", 64, 256, 50005),
)
SETUP: dict[str, Any] = {
    "profile": "qwen3_omni_moe.yaml",
    "pipeline": "qwen3_omni_moe",
    "platform": "cuda",
    "model": "thinker",
    "command": "omnicfg bench",
    "engine": "bundled",
    "driver": "own",
    "arms": {
        name: {"settings": [f"x={name}"], "alone": False, "rows": False, "plan": name, "limits": {}}
        for name in ("off", "on")
    },
    "loads": {load.name: load.to_dict() for load in LOADS},
}


def measurement(round_: int, arm: str, load: str, rate: float, **changes: Any) -> dict[str, Any]:
    times = {"mean": 1000 / rate, "median": 1000 / rate, "p99": 2000 / rate}
    return {
        "round": round_,
        "arm": arm,
        "load": load,
        "date": "2026-11-29T12:00:00+00:00",
        "requests": 256,
        "completed": 256,
        "errors": 0,
        "error_samples": [],
        "seconds": 256 / rate,
        "requests_per_second": rate,
        "output_tokens": 2048,
        "ttft_ms": times,
        "tpot_ms": times,
        "ttfp_ms": None,
        "audio_seconds": 0.0,
        "real_time_factor": None,
        "queried_tokens": 1000,
        "hit_tokens": 10,
        "hit_rate": 0.01,
        "preemptions": 0,
        "payloads": None,
        "resident_gib": {"stage_0": 5.0 + (arm == "on"), "all": 7.0},
        "cache_tokens": 767_936,
        "block_tokens": 16,
        "server": {"start_s": 60.0, "log": "1-off-1.log", "speaks": False},
        "machine": MACHINE,
        **changes,
    }


MEASURED = [
    measurement(1, "off", "P1024_h0_c1", 8.0),
    measurement(1, "on", "P1024_h0_c1", 8.8),
    measurement(2, "off", "P1024_h0_c1", 10.0),
    measurement(2, "on", "P1024_h0_c1", 9.0),
    measurement(3, "off", "P1024_h0_c1", 8.0),
    measurement(1, "off", "P1024_h0_c64", 20.0, errors=2),
]
REPORT = report_of(SETUP, MEASURED)


def test_ratios_are_of_measurements_of_one_round() -> None:
    on = REPORT["loads"][0]["arms"]["on"]
    assert on["ratio"] == {"median": pytest.approx(1.0), "low": pytest.approx(0.9), "high": pytest.approx(1.1)}
    assert (on["rounds"], REPORT["loads"][0]["arms"]["off"]["rounds"]) == (2, 3)
    assert on["ttft_ratio"] == pytest.approx((8 / 8.8 + 10 / 9) / 2, abs=1e-4)


def test_an_arm_that_is_not_measured_yet_is_not_there() -> None:
    assert list(REPORT["loads"][1]["arms"]) == ["off"]


def test_a_baseline_that_answered_nothing_has_no_ratio() -> None:
    measured = [measurement(1, "off", "P1024_h0_c1", 8.0, requests_per_second=0.0), MEASURED[1]]
    assert report_of(SETUP, measured)["loads"][0]["arms"]["on"]["ratio"] is None


def test_the_report_is_what_its_schema_says() -> None:
    jsonschema.Draft202012Validator(SCHEMA).validate(REPORT)
    wrong = {**REPORT, "loads": [{**REPORT["loads"][0], "seed": "x"}]}
    assert list(jsonschema.Draft202012Validator(SCHEMA).iter_errors(wrong))


def test_markdown_has_the_layout_of_the_published_tables() -> None:
    told = tables.markdown(REPORT)
    header = "| bench | stage-0 hit | off (req/s) | on | per-round range | TTFT | TPOT | TTFP | notes |"
    row = "| P1024_h0_c1 | 1.0% | 8 | +0.0% | -10.0% .. +10.0% | 112.4 ms (+1.0%) | 112.4 ms (+1.0%) |  | 2 rounds |"
    assert header in told
    assert row in told
    assert "NVIDIA H200; Linux x86_64; vllm 0.32.0" in told
    assert "| on | 767,936 | 6.00 |" in told


def test_errors_are_in_the_table() -> None:
    measured = [*MEASURED, measurement(1, "on", "P1024_h0_c64", 21.0, errors=3)]
    told = tables.text(report_of(SETUP, measured), Style(False), None)
    assert "1 round, 5 errors" in told


@pytest.mark.parametrize(
    ("complete", "incomplete", "lacking"), [(256, 0, 0), (250, 6, 6), (250, 0, 6), (0, 0, 256), (257, 0, 0)]
)
def test_hidden_states_that_did_not_come_whole_are_errors(complete: int, incomplete: int, lacking: int) -> None:
    payloads = {"complete": complete, "incomplete": incomplete, "bytes": 1}
    measured = [measurement(1, "on", "P1024_h0_c1", 8.0, payloads=payloads, errors=1)]
    assert report_of(SETUP, measured)["loads"][0]["arms"]["on"]["errors"] == 1 + lacking


def test_a_bench_whose_hidden_states_are_lacking_does_not_end_well(tmp_path: Path) -> None:
    payloads = {"complete": 255, "incomplete": 0, "bytes": 1}
    store = Store.joined(tmp_path / "out", SETUP)
    store.keep(measurement(1, "off", "P1024_h0_c1", 8.0, payloads=payloads))
    done = SimpleNamespace(run=lambda: True, progress=Progress(StringIO()), store=store, kept=1)
    assert _measuring._told(done, "text") == 1


def test_one_arm_alone_is_a_table_too() -> None:
    setup = {**SETUP, "arms": {"off": SETUP["arms"]["off"]}}
    assert "P1024_h0_c1" in tables.text(report_of(setup, MEASURED[:1]), Style(False), None)


def test_a_baseline_alone_is_a_table_until_another_arm_is_measured() -> None:
    report = report_of(SETUP, [measurement(1, "off", "P1024_h0_c1", 40.0)])
    told = tables.text(report, Style(False), None).splitlines()
    assert told[0] == "off"
    assert told[2].split()[0] == "P1024_h0_c1"


def three_arms() -> dict[str, Any]:
    """Both loads off and on; one of them by a third arm too."""
    arms = {**SETUP["arms"], "plain": {**SETUP["arms"]["on"], "settings": []}}
    rates = {("off", 0): 10.0, ("on", 0): 9.0, ("off", 1): 40.0, ("on", 1): 120.0, ("plain", 1): 110.0}
    measured = [measurement(1, arm, LOADS[place].name, rate) for (arm, place), rate in rates.items()]
    return report_of({**SETUP, "arms": arms}, measured)


def test_the_bars_of_a_load_are_in_the_middle_of_its_row() -> None:
    figure = pytest.importorskip("matplotlib.figure").Figure()
    assert plots._ratio(three_arms(), figure)
    [axes], [legend] = figure.axes, figure.legends
    drawn = sorted((round(bar.get_y() + bar.get_height() / 2, 3), round(bar.get_width(), 3)) for bar in axes.patches)
    assert drawn == [(0.0, -0.1), (0.8, 2.0), (1.2, 1.75)]
    assert list(axes.get_yticks()) == [0, 1]
    assert axes.get_legend() is None, "it would hide a figure"
    assert [text.get_text() for text in legend.get_texts()] == ["on", "plain"]


def test_an_arm_has_its_colour_in_every_picture_and_every_point_has_room() -> None:
    figures = pytest.importorskip("matplotlib.figure")
    from matplotlib.colors import same_color

    report = three_arms()
    ratio, concurrency, memory = figures.Figure(), figures.Figure(), figures.Figure()
    assert plots._ratio(report, ratio)
    assert plots._concurrency(report, concurrency)
    assert plots._memory(report, memory)
    [axes] = concurrency.axes
    lines = {container.get_label(): container.lines[0].get_color() for container in axes.containers}
    assert lines == {"off": "C0", "on": "C1", "plain": "C2"}
    assert all(same_color(bar.get_facecolor(), "C2") for bar in ratio.axes[0].containers[-2])
    assert [same_color(bar.get_facecolor(), f"C{arm}") for arm, bar in enumerate(memory.axes[0].patches)] == [True] * 3
    assert axes.get_ylim() == (0, pytest.approx(1.08 * 120.0))


@pytest.mark.parametrize("name", [r"$\foo$", "a$x^2$", "\ud800x", "\u624b", "_on", "", "n" * 64])
def test_whatever_names_an_edited_report_has_there_are_pictures(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    load = LOADS[1].name
    setup = {**SETUP, "arms": {"off": SETUP["arms"]["off"], name: SETUP["arms"]["on"]}}
    report = report_of(setup, [measurement(1, "off", load, 8.0), measurement(1, name, load, 9.0)])
    report["loads"][0]["name"] = name
    report["loads"][0]["arms"][name]["ratio"]["low"] = 5.0
    write(tmp_path, report)
    assert {path.name for path in (tmp_path / "plots").iterdir()} >= {"ratio.png", "memory.svg"}
    assert capsys.readouterr().err == ""


def test_a_shape_whose_requests_all_failed_is_drawn_at_none_a_second(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    figure = pytest.importorskip("matplotlib.figure").Figure()
    report = report_of(SETUP, [measurement(1, "off", load.name, 8.0, requests_per_second=0.0) for load in LOADS])
    assert plots._concurrency(report, figure)
    assert figure.axes[0].get_ylim() == (0, 1)
    assert not recwarn.list


def test_concurrencies_stand_apart_and_long_names_below_each_other() -> None:
    figure = pytest.importorskip("matplotlib.figure").Figure()
    arms = {f"an-arm-with-a-name-of-its-own-{number}": SETUP["arms"]["on"] for number in range(3)}
    loads = {f"P_c{1 << power}": {**LOADS[0].to_dict(), "concurrency": 1 << power} for power in range(9)}
    measured = [measurement(1, arm, load, 8.0) for arm in arms for load in loads]
    assert plots._concurrency(report_of({**SETUP, "arms": arms, "loads": loads}, measured), figure)
    [axes], [legend] = figure.axes, figure.legends
    assert axes.get_xscale() == "log"
    assert [text.get_text() for text in axes.get_xticklabels()] == [str(1 << power) for power in range(9)]
    assert legend._ncols == 1


def test_memory_that_is_not_known_is_not_drawn_as_none() -> None:
    figures = pytest.importorskip("matplotlib.figure")
    for tokens, titles in ((1600, ["KV cache (tokens)"]), (None, [])):
        measured = [{**one, "resident_gib": None, "cache_tokens": tokens} for one in MEASURED]
        figure = figures.Figure()
        assert plots._memory(report_of(SETUP, measured), figure) == bool(titles)
        assert [axes.get_title() for axes in figure.axes] == titles
    figure = figures.Figure()
    measured = [{**one, "resident_gib": None} if one["arm"] == "off" else one for one in MEASURED]
    assert plots._memory(report_of(SETUP, measured), figure)
    left, right = figure.axes
    assert [bar.get_height() for bar in left.patches] == [6.0]
    assert [bar.get_height() for bar in right.patches] == [767_936, 767_936]


@pytest.mark.parametrize("error", [ValueError("'nope' is not a backend"), ImportError("numpy.core failed to import")])
def test_a_matplotlib_that_does_not_start_is_told(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As with a `$MPLBACKEND` that is none, or beside another numpy than it was built for."""
    real = builtins.__import__

    def fails(name: str, *more: Any, **named: Any) -> Any:
        if name == "matplotlib":
            raise error
        return real(name, *more, **named)

    monkeypatch.setattr(builtins, "__import__", fails)
    write(tmp_path, REPORT)
    assert capsys.readouterr().err == f"omnicfg bench: no plots, as matplotlib does not start: {error}\n"
    assert {path.name for path in tmp_path.iterdir()} == {"report.json", "report.md"}


def test_names_and_commands_cannot_break_a_page() -> None:
    arms = {"off": SETUP["arms"]["off"], "a|b": SETUP["arms"]["on"]}
    report = report_of({**SETUP, "arms": arms, "command": "a `b`\n# c"}, [measurement(1, "a|b", LOADS[0].name, 8.0)])
    lines = tables.markdown(report).splitlines()
    assert any(line.endswith("with `` a `b`\\n# c ``") for line in lines)
    [header] = [line for line in lines if line.startswith("| bench")]
    assert "| a\\|b |" in header


def test_a_row_says_of_how_many_rounds_its_ratio_is() -> None:
    load = LOADS[0].name
    rounds = (("off", 2), ("off", 3), ("on", 1), ("on", 3))
    report = report_of(SETUP, [measurement(number, arm, load, 8.0) for arm, number in rounds])
    [row] = [line for line in tables.text(report, Style(False), None).splitlines() if line.startswith(load)]
    assert row.endswith("1 round")


def test_what_a_terminal_would_act_on_is_shown_in_markdown() -> None:
    report = {**REPORT, "command": "omnicfg \x1b[31mbench"}
    assert "`omnicfg \\x1b[31mbench`" in tables.markdown(report)


def test_pictures_take_their_places_whole(tmp_path: Path) -> None:
    """A picture that somebody looks at through a link is written where that leads, as reports are."""
    pytest.importorskip("matplotlib")
    (tmp_path / "out/plots").mkdir(parents=True)
    (tmp_path / "out/plots/ratio.png").symlink_to(tmp_path / "shown.png")
    write(tmp_path / "out", REPORT)
    assert (tmp_path / "shown.png").read_bytes()[:4] == b"\x89PNG"
    assert not list((tmp_path / "out").rglob(".*"))
    (tmp_path / "file").mkdir()
    (tmp_path / "file/plots").write_text("")
    with pytest.raises(UsageError, match="plots` cannot be made: File exists"):
        write(tmp_path / "file", REPORT)
    assert [path.name for path in (tmp_path / "file").iterdir()] == ["plots"]


def test_pictures_and_files(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    write(tmp_path, REPORT)
    assert json.loads((tmp_path / "report.json").read_text()) == REPORT
    names = {f"{name}.{kind}" for name in ("ratio", "concurrency", "memory") for kind in ("png", "svg")}
    assert {path.name for path in (tmp_path / "plots").iterdir()} == names
    assert (tmp_path / "plots/ratio.png").read_bytes()[:4] == b"\x89PNG"
    first = (tmp_path / "plots/ratio.svg").read_bytes()
    write(tmp_path, REPORT)
    assert (tmp_path / "plots/ratio.svg").read_bytes() == first


def test_pictures_of_a_report_that_was_there_before_go(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    (tmp_path / "plots").mkdir()
    for name in ("ratio.png", "concurrency.svg", "mine.png"):
        (tmp_path / "plots" / name).write_text("old")
    write(tmp_path, report_of(SETUP, MEASURED[:1]))
    names = {path.name for path in (tmp_path / "plots").iterdir()}
    assert names == {"memory.png", "memory.svg", "mine.png"}


@pytest.mark.parametrize("place", ["report.json", "report.md", "plots/memory.png"])
def test_where_one_file_has_no_place_none_is_written(tmp_path: Path, place: str) -> None:
    pytest.importorskip("matplotlib")
    (tmp_path / place).mkdir(parents=True)
    with pytest.raises(UsageError, match=f"{place}` is a directory"):
        write(tmp_path, REPORT)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_an_arm_without_a_measurement_is_not_in_the_pictures_nor_told_of(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    later = {**SETUP, "arms": {**SETUP["arms"], "plain": SETUP["arms"]["off"]}}
    for name, setup in (("two", SETUP), ("three", later)):
        write(tmp_path / name, report_of(setup, MEASURED))
    for picture in (tmp_path / "two" / "plots").iterdir():
        assert (tmp_path / "three" / "plots" / picture.name).read_bytes() == picture.read_bytes()
    told = [tables.text(report_of(setup, MEASURED), Style(False), None) for setup in (SETUP, later)]
    assert told[0] == told[1]


def test_without_matplotlib_there_are_no_pictures_and_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    write(tmp_path, REPORT)
    assert (tmp_path / "report.md").is_file()
    assert "no plots without `matplotlib`" in capsys.readouterr().err


def test_published_results_are_those_of_the_tables() -> None:
    told = published.published("h20", "qwen3-omni")
    assert len(told["loads"]) == 22
    best = next(load for load in told["loads"] if load["name"] == "P16384_h94_c64")["arms"]
    assert best["off"]["requests_per_second"]["median"] == 0.679
    assert best["stack"]["ratio"] == pytest.approx({"median": 9.586, "low": 9.549, "high": 9.62})
    assert best["main"]["ratio"]["median"] == pytest.approx(0.731)
    assert len(published.published("h20", "minicpm-o-4-5")["loads"]) == 21


def test_a_report_beside_what_was_published_for_its_model(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text(json.dumps(REPORT))
    left, right = comparison.reports(str(path), "h20")
    headers = comparison.headers(left, right)
    first, second = comparison.rows(left, right)
    assert headers[:6] == ["bench", "hit A", "hit B", "A off (req/s)", "B off (req/s)", "B to A"]
    assert dict(zip(headers, first, strict=True)) == {
        "bench": "P1024_h0_c1",
        "hit A": "1.0%",
        "hit B": "0.0%",
        "A off (req/s)": "8",
        "B off (req/s)": "7.916",
        "B to A": "-1.0%",
        "A on": "+0.0% (-10.0% .. +10.0%)",
        "B main": "-2.3%",
        "B stack": "-1.4% (-2.6% .. +0.0%)",
    }
    assert second[-3:] == ["", "-1.5%", "+0.2% (-0.1% .. +0.8%)"]
    assert second[1] == "1.0%", "also where the baseline alone is measured"
    assert comparison.alone(left, right)[0] == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "report.json:1:2` is no JSON"),
        ("[]", "is no report"),
        ('{"kind": "prefix-cache", "version": 9}', "is no report"),
        ('{"kind": "prefix-cache", "version": 1}', "is not what `omnicfg bench` writes: it has no made,"),
        (json.dumps({**REPORT, "loads": [{"name": "x", "arms": 3}]}), "`loads[0]` has no shared_prefix_tokens,"),
        (json.dumps({**REPORT, "loads": [{**LOADS[0].to_dict(), "arms": 3}]}), "`loads[0].arms` has to be a mapping"),
        (json.dumps({**REPORT, "loads": [{**LOADS[0].to_dict(), "range_ratio": 1}]}), "has no arms"),
        (
            json.dumps({**REPORT, "loads": [{**LOADS[0].to_dict(), "range_ratio": 1, "arms": {}}]}),
            "`loads[0].range_ratio` is out of range",
        ),
        (json.dumps({**REPORT, "arms": []}), "`arms` has to be a mapping"),
        (json.dumps({**REPORT, "profile": {"a": 1}}), "`profile` has to be a text"),
        (json.dumps({**REPORT, "pipeline": None}), "`pipeline` has to be a text"),
        (json.dumps({**REPORT, "platform": "abacus"}), "`platform` has to be cuda or "),
        (json.dumps({**REPORT, "baseline": "nope"}), "its baseline is none of its arms"),
    ],
)
def test_what_is_no_report(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "report.json"
    path.write_text(content)
    with pytest.raises(UsageError) as caught:
        comparison.reports(str(path), "h20")
    assert message in str(caught.value)


def test_a_load_that_has_only_its_name_in_common_is_left_out_and_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn_again, longer = ({**load, **change} for load, change in zip(REPORT["loads"], CHANGES, strict=True))
    for name, report in (("one", REPORT), ("two", {**REPORT, "loads": [drawn_again, longer]})):
        (tmp_path / name).write_text(json.dumps(report))
    assert run(["bench", "compare", str(tmp_path / "one"), str(tmp_path / "two")]) == 0
    told = capsys.readouterr()
    assert [line.split()[0] for line in told.out.splitlines()[3:]] == ["P1024_h0_c1"]
    assert told.err == (
        "omnicfg bench: left out, since it is another load in the two: "
        "P1024_h0_c64 (own_tokens_mean 1024 and 2048, prompts 256 and 64)\n"
    )


CHANGES: list[dict[str, Any]] = [{"seed": 77}, {"own_tokens_mean": 2048, "prompts": 64}]


def test_compare_as_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "report.json").write_text(json.dumps(REPORT))
    for words, expected in (
        (["--format", "json"], '"A off (req/s)": "8"'),
        (["--format", "markdown"], "| P1024_h0_c1 | 1.0% | 0.0% | 8 | 7.916 | -1.0% |"),
        ([], "B: qwen3-omni, as published (H20)"),
    ):
        monkeypatch.setattr("sys.argv", ["omnicfg", "bench", "compare", str(tmp_path), "h20", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        told = capsys.readouterr()
        assert ended.value.code == 0
        assert expected in told.out
        assert "only h20 has P1024_h0_c8" in told.err


def test_a_report_is_made_anew_from_measurements(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store.joined(tmp_path / "out", SETUP)
    for one in MEASURED:
        store.keep(one)
    assert run(["bench", "report", str(tmp_path / "out"), "--format", "markdown"]) == 0
    page = (tmp_path / "out/report.md").read_text()
    assert page.startswith(capsys.readouterr().out)
    told = json.loads((tmp_path / "out/report.json").read_text())
    assert told["loads"] == REPORT["loads"]


def test_no_report_is_made_of_nothing(tmp_path: Path) -> None:
    """Nor does one take the place of a report whose measurements have gone."""
    Store.joined(tmp_path / "out", SETUP)
    (tmp_path / "out/report.json").write_text("what was")
    with pytest.raises(UsageError, match="holds no measurement yet"):
        run(["bench", "report", str(tmp_path / "out")])
    (tmp_path / "out/measurements").rmdir()
    with pytest.raises(UsageError, match="holds no measurement yet"):
        run(["bench", "report", str(tmp_path / "out")])
    assert (tmp_path / "out/report.json").read_text() == "what was"
    assert not (tmp_path / "out/report.md").exists()


def test_a_bench_that_measured_nothing_leaves_no_report(tmp_path: Path) -> None:
    store = Store.joined(tmp_path / "out", SETUP)

    def fails() -> bool:
        raise ServeError("no server")

    with pytest.raises(ServeError, match="no server"):
        _measuring._told(SimpleNamespace(run=fails, progress=Progress(StringIO()), store=store, kept=0), "text")
    assert {path.name for path in store.folder.iterdir()} == {"setup.json", "measurements", "logs", "scratch"}


def test_a_report_goes_where_it_is_wanted_with_its_pictures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    store = Store.joined(tmp_path / "out", SETUP)
    for one in MEASURED:
        store.keep(one)
    assert run(["bench", "report", str(tmp_path / "out"), "--out", str(tmp_path / "docs/h200")]) == 0
    assert not (tmp_path / "out/report.md").exists()
    page = (tmp_path / "docs/h200/report.md").read_text()
    shown = re.findall(r"!\[(\w+)\]\((.+)\)", page)
    assert [name for name, _ in shown] == ["ratio", "concurrency", "memory"]
    assert all((tmp_path / "docs/h200" / path).is_file() for _, path in shown)


def test_no_report_takes_the_place_of_one_whose_measurements_are_there(tmp_path: Path) -> None:
    for name in ("one", "other"):
        store = Store.joined(tmp_path / name, SETUP)
        store.keep(MEASURED[0])
    for name in ("one", str(Path("other") / ".." / "one")):
        assert run(["bench", "report", str(tmp_path / "one"), "--out", str(tmp_path / name)]) == 0
    with pytest.raises(UsageError, match="other` holds the report of its own measurements"):
        run(["bench", "report", str(tmp_path / "one"), "--out", str(tmp_path / "other")])
    assert not (tmp_path / "other/report.json").exists()


@pytest.mark.parametrize(("part", "name"), [("arm", "zz"), ("load", "OTHER")])
def test_a_measurement_of_which_the_setup_says_nothing_is_told(tmp_path: Path, part: str, name: str) -> None:
    store = Store.joined(tmp_path / "out", SETUP)
    store.keep(MEASURED[0])
    store.keep({**MEASURED[0], part: name})
    with pytest.raises(UsageError, match=f"a measurement of {part} `{name}`"):
        run(["bench", "report", str(tmp_path / "out")])
    assert not (tmp_path / "out/report.json").exists()


def test_a_report_without_its_measurements_is_shown_or_goes_where_it_is_wanted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such as one that is committed."""
    given = tmp_path / "given"
    given.mkdir()
    (given / "report.json").write_text(json.dumps(REPORT))
    for name in (given, given / "report.json"):
        capsys.readouterr()
        assert run(["bench", "report", str(name), "--format", "markdown"]) == 0
        shown = capsys.readouterr().out
        assert shown.startswith("# ")
        assert [path.name for path in given.iterdir()] == ["report.json"]
        assert run(["bench", "report", str(name), "--out", str(tmp_path / "page"), "--format", "markdown"]) == 0
        assert (tmp_path / "page/report.md").read_text().startswith(shown)
        assert json.loads((tmp_path / "page/report.json").read_text()) == REPORT


@pytest.mark.parametrize(
    "words", [["report", "out"], ["prefix-cache", "tiny-omni", "--quick"], ["equality", "tiny-omni", "--quick"]]
)
def test_nothing_goes_between_the_measurements(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: Sequence[str]
) -> None:
    """All files there are read as measurements."""
    monkeypatch.chdir(tmp_path)
    store = Store.joined(tmp_path / "out", SETUP)
    for one in MEASURED:
        store.keep(one)
    with pytest.raises(UsageError, match="where measurements are kept"):
        run(["bench", *words, "--out", "out/measurements"])
    assert len(store.measurements()) == len(MEASURED)


@pytest.mark.parametrize(
    ("holds", "message"),
    [
        (None, "is not there"),
        ("out/measurements/1-off-COLD.json", "holds measurements without their setup.json"),
        ("out/else", "holds no measurements"),
    ],
)
def test_what_there_is_instead_of_measurements_is_told(tmp_path: Path, holds: str | None, message: str) -> None:
    if holds is not None:
        (tmp_path / holds).parent.mkdir(parents=True)
        (tmp_path / holds).touch()
    with pytest.raises(UsageError, match=f"out` {message}"):
        run(["bench", "report", str(tmp_path / "out")])


@pytest.mark.parametrize("setup", [None, "{}", "[]", "{"])
def test_a_folder_without_measurements_has_no_report(tmp_path: Path, setup: str | None) -> None:
    if setup is not None:
        (tmp_path / "setup.json").write_text(setup)
    with pytest.raises(UsageError):
        run(["bench", "report", str(tmp_path)])
