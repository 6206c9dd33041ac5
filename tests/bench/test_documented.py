"""The figures of the pages about benches are those of the measurements beside them, computed here anew."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest

PAGES = Path(__file__).parents[2] / "docs/benchmarks"
PUBLISHED = Path(__file__).parents[2] / "profiles/bench/published/h20"
Row = list[str]


def measured(folder: str) -> dict[tuple[str, str], dict[str, Any]]:
    """By arm and load. Each of these reports is of one round."""
    report = json.loads((PAGES / folder / "report.json").read_text(encoding="utf-8"))
    assert {one["round"] for one in report["measurements"]} == {1}
    return {(one["arm"], one["load"]): one for one in report["measurements"]}


def published(model: str) -> dict[str, dict[str, str]]:
    with (PUBLISHED / f"{model}.csv").open(newline="") as stream:
        return {row["name"]: row for row in csv.DictReader(stream)}


def table(page: str, heading: str, header: str) -> list[Row]:
    """The rows below a header, below a heading; cells without marks for bold."""
    text = (PAGES / page).read_text(encoding="utf-8")
    below = text[text.index(heading) :].split(f"{header}\n", 1)[1]
    lines = below[: below.index("\n\n")].splitlines()[1:]
    return [[cell.strip().replace("**", "") for cell in line.strip().strip("|").split("|")] for line in lines]


def change(value: float, base: float) -> str:
    return f"{value / base - 1:+.1%}"


def beside(model: str, folder: str, name: str) -> Row:
    off, on = (measured(folder)[arm, name] for arm in ("off", "on"))
    rate, row = off["completed"] / off["seconds"], published(model)[name]
    assert rate == pytest.approx(off["requests_per_second"], rel=1e-3)
    return [
        name,
        f"{on['hit_tokens'] / on['queried_tokens']:.0%}",
        f"{off['requests_per_second']:.4g}",
        change(on["requests_per_second"], off["requests_per_second"]),
        f"{float(row['main']):+.1%}",
        f"{float(row['stack']):+.1%}",
    ]


HEADER = "| load | hits | requests/s, off | on | published, H20: main | published, H20: with the change |"


@pytest.mark.parametrize(
    ("heading", "model", "folder", "rows"),
    [
        ("# The published text loads, on one H200", "qwen3-omni", "bench_qwen3_h200", 21),
        ("## MiniCPM-o 4.5's loads", "minicpm-o-4-5", "bench_minicpmo_h200", 12),
        ("### The loads that were missing, on another machine", "minicpm-o-4-5", "bench_minicpmo_more_h200", 6),
    ],
)
def test_text_beside_what_is_published(heading: str, model: str, folder: str, rows: int) -> None:
    shown = table("text.md", heading, HEADER)
    known = measured(folder)
    both = [name for arm, name in known if arm == "off" and ("on", name) in known]
    assert sorted(row[0] for row in shown) == sorted(both)
    assert len(shown) == rows
    assert shown == [beside(model, folder, row[0]) for row in shown]


def test_text_beside_plain_vllm_with_its_cache_on() -> None:
    known = measured("bench_qwen3_plain_h200")
    shown = table(
        "text.md", "Two loads had no room beside", "  | load | hits | requests/s, plain vLLM with its cache on | on |"
    )
    rows = []
    for name in ("P16384_h94_c64", "MP32_c64"):
        plain, on = (known[arm, name] for arm in ("plain", "on"))
        assert plain["hit_tokens"] == on["hit_tokens"]
        change_ = change(on["requests_per_second"], plain["requests_per_second"])
        rows.append([name, f"{on['hit_rate']:.0%}", f"{plain['requests_per_second']:.2f}", change_])
    assert shown == rows


def test_the_second_round() -> None:
    """Which has plain vLLM's own cache beside it, but for the load at which it was cut off."""
    first, second = measured("bench_qwen3_h200"), measured("bench_qwen3_second_h200")

    def rate(known: dict[tuple[str, str], dict[str, Any]], arm: str, name: str) -> float:
        return float(known[arm, name]["requests_per_second"])

    rows = []
    for name in [row[0] for row in table("text.md", "# The published text loads", HEADER)]:
        on, plain = second["on", name], second.get(("plain", name))
        assert plain is None or plain["hit_tokens"] == on["hit_tokens"]
        rows.append(
            [
                name,
                f"{on['hit_tokens'] / on['queried_tokens']:.0%}",
                f"{rate(second, 'off', name):.4g}",
                change(rate(second, "on", name), rate(second, "off", name)),
                change(rate(first, "on", name), rate(first, "off", name)),
                f"{rate(second, 'plain', name):.4g}" if plain else "",
                f"{rate(second, 'on', name) / rate(second, 'plain', name):.3f}" if plain else "",
            ]
        )
    header = (
        "| load | hits | requests/s, off | on | on, in the first round | requests/s, plain vLLM with its cache on "
        "| on, to that |"
    )
    assert table("text.md", "## A second round", header) == rows
    assert len(second) == 52


def turns(run: dict[str, Any], group: str, load: str, arm: str) -> str:
    """Median and range of an arm's ratios to its group's own server, as a table has them."""
    ratios = []
    for turn in range(run["turns"]):
        own, base = (run["measurements"][f"{group}-{load}-{one}-{turn}"] for one in (arm, group))
        ratios.append(own["requests_per_second"] / base["requests_per_second"])
    return f"{median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"


def test_the_rows_that_missed_again() -> None:
    five, two = json.loads((PAGES / "engine_cost_v1_profiled_h200.json").read_text(encoding="utf-8"))["runs"]
    heading, plain, off = "#### The two loads that missed", "plain vLLM, cache on", "cache off"
    (p1024, dec, one) = ("P1024_h94_c64", "DEC100_c32", "P1024_h0_c1")
    text, rows = "text only", "rows to a consumer"
    assert table("engine.md", heading, "| load | arm | ratio to | five turns | two turns |") == [
        [p1024, text, plain, turns(five, "plain", p1024, "text"), turns(two, "plain", p1024, "text")],
        [dec, text, plain, turns(five, "plain", dec, "text"), turns(two, "plain", dec, "text")],
        ["", rows, "", turns(five, "plain", dec, "rows"), turns(two, "plain", dec, "rows")],
        ["", text, off, turns(five, "off", dec, "text"), ""],
        ["", rows, "", turns(five, "off", dec, "rows"), ""],
        [one, text, off, turns(five, "off", one, "text"), ""],
        ["", rows, "", turns(five, "off", one, "rows"), ""],
    ]
    shown = table(
        "engine.md",
        heading,
        "| load | arm | answers as plain vLLM's | kernels a request | the GPU computes, a request | | busy "
        "| waits for a launch |",
    )
    traced = [
        two["measurements"][f"kernels-plain-{load}-{arm}"]
        for load, arms in ((p1024, ("plain", "text")), (dec, ("plain", "text", "rows")))
        for arm in arms
    ]
    assert [(row[3], row[4].removesuffix(" ms"), row[6]) for row in shown] == [
        (
            f"{one['kernels_per_request']:,}",
            f"{one['ms_per_request']:.{3 if one['requests'] == 512 else 2}f}",
            f"{one['busy']:.1%}",
        )
        for one in traced
    ]
    assert [row[2] for row in shown if row[2]] == [
        f"{one['answers_as_plain']} of {one['requests']}" for one in traced[1:2] + traced[3:]
    ]
    assert [row[5] for row in shown if row[5]] == [
        f"{one['ms_per_request'] / base['ms_per_request']:.3f}"
        for one, base in ((traced[1], traced[0]), (traced[3], traced[2]), (traced[4], traced[2]))
    ]


def test_each_gpu_of_the_placement_is_within_its_stages_shares() -> None:
    told = json.loads((PAGES / "speech_h200.json").read_text(encoding="utf-8"))["placement_2026_11_30"]
    shown = table(
        "speech.md", "## The placement", "| GPU | stages and their shares | allowed by them | in use at most |"
    )
    assert told["answers"] == {"200": 16, "others": 0}
    for (device, _, allowed, used), most, total in zip(shown, told["mib_in_use_at_most"], told["mib"], strict=True):
        share = sum(one["share"] for one in told["shares"] if one["devices"] == device)
        assert (allowed, used) == (f"{share * total / 1024:.1f} GiB", f"{most / 1024:.1f} GiB")
        assert most <= share * total


def spoken(folder: str, hits: int) -> Iterator[Row]:
    known = measured(folder)
    for concurrency in (8, 32, 64):
        off, on = (known[arm, f"AUD_L4096_h{hits}_c{concurrency}"] for arm in ("off", "on"))
        share = on["hit_tokens"] / on["queried_tokens"]
        first, packet = ((off[name]["mean"], on[name]["mean"]) for name in ("ttft_ms", "ttfp_ms"))
        yield [
            "8 at a time" if (hits, concurrency) == (0, 8) else str(concurrency),
            f"{share:.1%}" if share else "0%",
            f"{off['requests_per_second']:.2f}",
            change(on["requests_per_second"], off["requests_per_second"]),
            f"{first[1]:,.0f} ms ({change(first[1], first[0])})",
            f"{packet[1]:,.0f} ms ({change(packet[1], packet[0])})",
            f"{on['real_time_factor']['mean']:.3f}",
        ]


@pytest.mark.parametrize(
    ("heading", "folder"),
    [
        ("## All three stages at the dimensions of Qwen3-Omni-30B-A3B", "bench_speech_one_h200"),
        ("## All three stages, Talker and Code2Wav on a second GPU", "bench_speech_two_h200"),
    ],
)
def test_speech(heading: str, folder: str) -> None:
    header = "| load | hits | requests/s, off | on | TTFT | time to first audio packet | real-time factor |"
    assert table("speech.md", heading, header) == [*spoken(folder, 0), *spoken(folder, 94)]


def test_memory_and_errors_in_the_text() -> None:
    pages = {name: (PAGES / name).read_text(encoding="utf-8") for name in ("text.md", "speech.md")}
    folders = (
        ("text.md", "bench_qwen3_h200", "{off:.2f} and {on:.2f} GiB resident"),
        ("text.md", "bench_qwen3_second_h200", "{off:.2f} and {on:.2f} GiB resident"),
        ("text.md", "bench_minicpmo_h200", "{off:.2f} and {on:.2f} GiB resident"),
        ("text.md", "bench_minicpmo_more_h200", "{off:.2f} and {on:.2f} GiB resident"),
        (
            "speech.md",
            "bench_speech_one_h200",
            "{off:.2f} GiB of the host resident with the cache off and {on:.2f} GiB",
        ),
        (
            "speech.md",
            "bench_speech_two_h200",
            "{off:.2f} GiB of the host resident with the cache off and {on:.2f} GiB",
        ),
    )
    for page, folder, form in folders:
        known = measured(folder)
        assert not any(one["errors"] or one["preemptions"] for one in known.values())
        most = {
            arm: max(one["resident_gib"]["stage_0"] for (name, _), one in known.items() if name == arm)
            for arm in ("off", "on")
        }
        assert form.format(**most) in re.sub(r"\s+", " ", pages[page])
        for tokens in {one["cache_tokens"] for one in known.values()}:
            assert f"{tokens:,}" in pages[page] or folder == "bench_speech_one_h200"


ON_ONE, IN_TURNS = "#### Loads without hits, and larger CUDA graphs, in turns", "engine_cost_turns_h200.json"


def all_turns() -> tuple[dict[str, Any], dict[str, Any]]:
    """The run with all of its figures, and what another one printed."""
    first, second, _ = json.loads((PAGES / IN_TURNS).read_text(encoding="utf-8"))["runs"]
    return first, second["printed"]


def traced_turns(group: str, load: str) -> Row:
    """A line of a table: requests a second and ratio in turns, then the traces."""
    run, _ = all_turns()
    run = {**run, "turns": run["turns"][group]}
    base = median(
        run["measurements"][f"{group}-{load}-{group}-{turn}"]["requests_per_second"] for turn in range(run["turns"])
    )
    line = [load, f"{base:.1f}", turns(run, group, load, "text")]
    own, plain = (run["measurements"].get(f"kernels-{group}-{load}-{arm}") for arm in ("text", group))
    if own is None or plain is None:
        return [*line, "", "", ""]
    assert own["answers_as_plain"] == own["requests"]
    return [
        *line,
        f"{own['ms_per_request'] / plain['ms_per_request']:.3f}",
        f"{plain['waits']:.1%}",
        f"{own['waits']:.1%}",
    ]


@pytest.mark.parametrize(
    ("group", "header"),
    [
        (
            "off",
            "| load | req/s, cache off | text | the GPU computes, a request | waits for a launch, cache off | text |",
        ),
        (
            "plain",
            (
                "| load | req/s, plain vLLM, cache on | text | the GPU computes, a request "
                "| waits for a launch, plain vLLM | text |"
            ),
        ),
    ],
)
def test_rows_in_turns(group: str, header: str) -> None:
    shown = table("engine.md", ON_ONE, header)
    assert shown == [traced_turns(group, row[0]) for row in shown]


def test_the_kernel_that_was_chosen_otherwise() -> None:
    run, _ = all_turns()
    for load, without in (("P1024_h0_c64", "1.000"), ("P4096_h0_c64", "1.001")):
        own, plain = (run["measurements"][f"kernels-off-{load}-{arm}"] for arm in ("text", "off"))
        more = [one["us_per_request"]["triton_poi_fused_3"] for one in (own, plain)]
        assert f"{more[0] / more[1]:.2f}" in ("1.66", "1.67")
        assert f"{(own['ms_per_request'] - (more[0] - more[1]) / 1000) / plain['ms_per_request']:.3f}" == without


def printed(name: str) -> str:
    """Median and range of an arm's ratios, as a table has them."""
    _, told = all_turns()
    one = told[name]
    return f"{one['ratio']:.3f}" + (f" ({one['least']:.3f} to {one['most']:.3f})" if one["turns"] > 1 else "")


def test_what_the_fourth_machine_printed() -> None:
    _, told = all_turns()

    def computes(load: str, arm: str) -> str:
        own, base = (told[f"off-{load}-{one}"].get("kernels") for one in (arm, "off"))
        return f"{own['ms_per_request'] / base['ms_per_request']:.3f}" if own else ""

    header = "| load | arm | to the cache off, three turns | the GPU computes, a request |"
    names = {"text only": "text", "rows to a consumer": "rows"}
    load = ""
    for name, arm, ratio, computed in table("engine.md", ON_ONE, header):
        load = name or load
        assert ratio == printed(f"off-{load}-{names[arm]}")
        assert computed == computes(load, names[arm])


def test_ten_turns_on_one_gpu() -> None:
    run = json.loads((PAGES / IN_TURNS).read_text(encoding="utf-8"))["runs"][2]
    load, run = "P16384_h94_c64", {**run, "turns": run["turns"]["plain"]}
    own, plain = (run["measurements"][f"kernels-plain-{load}-{arm}"] for arm in ("text", "plain"))
    assert own["answers_as_plain"] == own["requests"] == 128

    def of(arm: str, figure: str) -> list[float]:
        return [run["measurements"][f"plain-{load}-{arm}-{turn}"][figure] for turn in range(run["turns"])]

    def traced(one: dict[str, Any]) -> Row:
        return [f"{one['kernels_per_request']}", f"{one['busy']:.1%}", f"{one['waits']:.1%}"]

    cpu = [
        mine / base for mine, base in zip(*(of(arm, "cpu_ms_per_request") for arm in ("text", "plain")), strict=True)
    ]
    rates = {arm: f"{median(of(arm, 'requests_per_second')):.2f}" for arm in ("text", "plain")}
    times = {arm: f"{median(of(arm, 'cpu_ms_per_request')):.1f} ms" for arm in ("text", "plain")}
    more = f", {median(cpu):.2f} ({min(cpu):.2f} to {max(cpu):.2f})"
    computes = [f"{one['ms_per_request']:.2f} ms" for one in (plain, own)]
    share = f"{own['ms_per_request'] / plain['ms_per_request']:.3f}"
    header = (
        "| arm | req/s | ratio | CPU a request | the GPU computes, a request | | kernels | busy | waits for a launch |"
    )
    ratio = turns(run, "plain", load, "text")
    assert table("engine.md", "#### P16384_h94_c64 in ten turns", header) == [
        ["plain vLLM, cache on", rates["plain"], "", times["plain"], computes[0], "", *traced(plain)],
        ["text only", rates["text"], ratio, times["text"] + more, computes[1], share, *traced(own)],
    ]
    chosen = [one["us_per_request"]["triton_poi_fused_3"] for one in (own, plain)]
    assert f"{chosen[0] / chosen[1]:.2f}" == "1.66"
    without = (own["ms_per_request"] - chosen[0] / 1000) / (plain["ms_per_request"] - chosen[1] / 1000)
    assert f"{without:.3f}" == "0.989"
    assert [sum(of(arm, "preemptions")) for arm in ("text", "plain")] == [0, 0]


@pytest.mark.parametrize(
    ("group", "heading", "indent"),
    [
        ("apart", "In turns, each server on a GPU of its own", "  "),
        ("both", "### Its loads with 94% hits beside plain", ""),
    ],
)
def test_rows_with_hits_in_turns_beside_plain_vllm(group: str, heading: str, indent: str) -> None:
    _, told = all_turns()
    header = f"{indent}| load | requests/s, plain vLLM with its cache on | on | turns |"
    shown = table("text.md", heading, header)
    assert [row[0] for row in shown] == [
        name.split("-")[1] for name in told if name.startswith(group) and "-plain" in name
    ]
    for load, plain, ratio, count in shown:
        own, base = told[f"{group}-{load}-text"], told[f"{group}-{load}-plain"]
        assert (plain, ratio, count) == (
            f"{base['requests_per_second']:.2f}",
            printed(f"{group}-{load}-text"),
            str(own["turns"]),
        )


def test_the_gaps_between_kernels() -> None:
    first, second = json.loads((PAGES / "engine_boundaries_h200.json").read_text(encoding="utf-8"))["runs"]
    cases = [f"{one['median']:.3f} ({one['least']:.3f} to {one['most']:.3f})" for one in first["cases"]]
    shown = [ms for _, ms in table("engine.md", "#### Gaps between kernels", "| state | ms |")]
    places = iter(cases)
    assert all(ms in places for ms in shown), "in the order in which they were measured"
    medians = [one[when]["median"] for one in second["cases"] for when in ("before", "beside", "after")]
    assert len(second["cases"]) == 10
    assert f"{min(medians):.3f} to {max(medians):.3f}" == "2.172 to 2.188"
