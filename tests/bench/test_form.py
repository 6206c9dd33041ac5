"""What is wrong with a document of the bench, in words, and what is not wrong although the schema does not name it."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from omnicfg.bench.form import problem, read_json
from omnicfg.errors import UsageError
from omnicfg.export.bench_schema import bench_schema
from tests.bench.test_report import REPORT


def changed(place: str, value: Any) -> Any:
    """A report with something else at a place such as ``loads.0.seed``."""
    report: Any = copy.deepcopy(REPORT)
    at = report
    *route, last = (int(step) if step.isdecimal() else step for step in place.split("."))
    for step in route:
        at = at[step]
    at[last] = value
    return report


@pytest.mark.parametrize(
    ("place", "value", "told"),
    [
        ("arms", [], "`arms` has to be a mapping"),
        ("loads", {}, "`loads` has to be a list"),
        ("loads.0", 3, "`loads[0]` has to be a mapping"),
        ("profile", None, "`profile` has to be a text"),
        ("arms.off.alone", 1, "`arms.off.alone` has to be true or false"),
        ("arms.off.settings", ["a", 3], "`arms.off.settings[1]` has to be a text"),
        ("arms.a b", {}, "`arms.a b` has no settings, alone, rows, plan, limits"),
        ("arms.off.limits.max_num_seqs", "8", "`arms.off.limits.max_num_seqs` has to be a whole number or null"),
        ("machines.0.versions.vllm", 0.32, "`machines[0].versions.vllm` has to be a text or null"),
        ("measurements.0.resident_gib", {"stage_0": 1}, "`measurements[0].resident_gib` has no all"),
        ("measurements.0.ttft_ms", {"mean": 1}, "`measurements[0].ttft_ms` has no median, p99"),
        ("measurements.0.ttft_ms", 3, "`measurements[0].ttft_ms` has to be a mapping or null"),
        ("version", 2, "`version` has to be 1"),
        ("platform", "abacus", "`platform` has to be cuda or npu or rocm or xpu or musa"),
        ("loads.0.answer", 3, "`loads[0].answer` has to be text or speech"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(place: str, value: Any, told: str) -> None:
    assert problem(changed(place, value)) == told


@pytest.mark.parametrize(
    ("place", "value", "told"),
    [
        ("seconds", True, "has to be a number"),
        ("seconds", "8", "has to be a number"),
        ("seconds", float("nan"), "has to be a number"),
        ("seconds", float("inf"), "has to be a number"),
        ("seconds", -0.5, "is out of range"),
        ("seconds", 1.1e18, "is out of range"),
        ("seconds", 10**400, "is out of range"),
        ("seconds", 10**18, None),
        ("seconds", 0, None),
        ("errors", True, "has to be a whole number"),
        ("errors", 8.0, "has to be a whole number"),
        ("errors", -1, "is out of range"),
        ("errors", 10**18 + 1, "is out of range"),
        ("errors", 10**18, None),
        ("cache_tokens", False, "has to be a whole number or null"),
        ("cache_tokens", 10**400, "is out of range"),
        ("cache_tokens", None, None),
        ("hit_rate", float("-inf"), "has to be a number or null"),
    ],
)
def test_numbers_are_finite_of_a_size_that_there_is_and_no_truths(place: str, value: Any, told: str | None) -> None:
    expected = told and f"`measurements[0].{place}` {told}"
    assert problem(changed(f"measurements.0.{place}", value)) == expected


def test_a_version_is_no_truth() -> None:
    assert problem(changed("version", True)) == "`version` has to be 1"


@pytest.mark.parametrize(("value", "told"), [(0.99, None), (1, "`loads[0].range_ratio` is out of range")])
def test_a_limit_of_a_value_s_own(value: float, told: str | None) -> None:
    assert problem(changed("loads.0.range_ratio", value)) == told


@pytest.mark.parametrize("place", ["later", "arms.off.later", "loads.0.later", "measurements.0.machine.later"])
def test_what_the_schema_does_not_name_is_left_alone(place: str) -> None:
    assert problem(REPORT) is None
    assert problem(changed(place, [float("nan"), {"any": "thing"}])) is None


def test_a_part_of_a_report_is_held_against_its_part_of_the_schema() -> None:
    measurement = {**REPORT["measurements"][0], "errors": "none"}
    assert problem(REPORT["measurements"][0], "properties", "measurements", "items") is None
    assert problem(measurement, "properties", "measurements", "items") == "`errors` has to be a whole number"
    assert problem([], "properties", "arms") == "it has to be a mapping"
    assert problem("", "properties", "version") == "it has to be 1"


def test_of_several_the_outermost_is_told_wherever_it_stands() -> None:
    report = changed("arms.off.plan", 3)
    report["measurements"][2] = None
    assert problem(report) == "`measurements[2]` has to be a mapping"
    del report["made"], report["loads"]
    assert problem(report) == "it has no made, loads"


def test_of_several_arms_the_same_one_is_told_every_time() -> None:
    arms = dict.fromkeys("hgfedcba", 3)
    assert problem(changed("arms", arms)) == "`arms.a` has to be a mapping"


def test_what_is_nested_too_deeply_to_be_shown_is_told() -> None:
    """Also in what the schema does not name, which is written again with the rest."""
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    for place in ("later", "profile"):
        assert problem(changed(place, deep)) == "it is nested too deeply"
    assert problem(changed("later", [[[[{"of": ["a later", "release"]}]]]])) is None


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b'{"kind":\n "prefix-cache",\n "loads": [}', r"report.json:3:12` is no JSON: Expecting value"),
        (b"", r"report.json:1:1` is no JSON: Expecting value"),
        (b"\xff\xfe{", "report.json` is no JSON: it is no text in UTF-8"),
        (b"1" * 5000, "report.json` is no JSON: Exceeds the limit"),
        (b"[" * 100_000, "report.json` is nested too deeply"),
    ],
    ids=["cut off", "empty", "binary", "digits", "deep"],
)
def test_what_is_no_json_is_told_with_its_place(content: bytes, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        read_json(Path("report.json"), content)


def test_there_are_words_for_all_that_the_schema_asks() -> None:
    told = {"type", "required", "const", "enum", "minimum", "maximum", "exclusiveMaximum"}
    silent = {"$schema", "$id", "title", "description", "format", "properties", "additionalProperties", "items"}
    assert keywords(bench_schema()) <= told | silent


def keywords(schema: Any) -> set[str]:
    inner = [*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")]
    return set(schema).union(*(keywords(one) for one in inner if isinstance(one, dict)))
