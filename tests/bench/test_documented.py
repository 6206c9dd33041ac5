"""The figures of the pages about benches are those of the measurements beside them, computed here anew."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path
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
    return [[cell.strip().replace("**", "") for cell in line.strip("|").split("|")] for line in lines]


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
        ("# The published text rows, on one H200", "qwen3-omni", "bench_qwen3_h200", 21),
        ("## MiniCPM-o 4.5's rows", "minicpm-o-4-5", "bench_minicpmo_h200", 12),
    ],
)
def test_text_beside_what_is_published(heading: str, model: str, folder: str, rows: int) -> None:
    shown = table("text.md", heading, HEADER)
    known = measured(folder)
    both = [name for arm, name in known if arm == "off" and ("on", name) in known]
    assert sorted(row[0] for row in shown) == sorted(both)
    assert len(shown) == rows
    assert shown == [beside(model, folder, row[0]) for row in shown]


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
        ("text.md", "bench_minicpmo_h200", "{off:.2f} and {on:.2f} GiB resident"),
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
