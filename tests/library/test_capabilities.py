"""Capability records: well formed, about things that exist, never without evidence and a public source."""

from __future__ import annotations

import functools
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML

from omnicfg.catalog.paths import profiles_dir, schemas_dir
from omnicfg.catalog.upstream import pipelines

SETTINGS = ("prefix_caching", "model_runner_v2", "duplex", "async_chunk")
RECORDS = sorted((profiles_dir() / "capabilities").glob("*.yaml"))


@functools.cache
def load(path: Path) -> dict[str, Any]:
    record: dict[str, Any] = YAML(typ="safe").load(path)
    return record


def entries(record: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Every entry of a record with its stage and the setting it is about; side effects among them."""
    for stage in record["stages"]:
        for setting in (*SETTINGS, "side_effects"):
            for entry in stage.get(setting, ()):
                yield stage["stage"], setting, entry


@pytest.fixture(params=RECORDS, ids=lambda path: str(path.stem))
def path(request: pytest.FixtureRequest) -> Path:
    chosen: Path = request.param
    return chosen


@pytest.fixture
def record(path: Path) -> dict[str, Any]:
    return load(path)


def test_each_record_fits_the_schema(record: dict[str, Any]) -> None:
    schema = json.loads((schemas_dir() / "capability.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(record, schema)


def test_a_record_is_named_after_its_model(record: dict[str, Any], path: Path) -> None:
    assert record["model"] == path.stem


def test_each_pipeline_and_stage_exists(record: dict[str, Any]) -> None:
    known = pipelines()
    assert set(record["pipelines"]) <= set(known)
    stages = {stage["model_stage"] for key in record["pipelines"] for stage in known[key]["stages"]}
    described = [stage["stage"] for stage in record["stages"]]
    assert sorted(described) == sorted(stages), "every stage of these pipelines, and each once"


def test_an_entry_about_a_pipeline_names_one_of_the_record(record: dict[str, Any]) -> None:
    for stage, setting, entry in entries(record):
        named = set(entry.get("when", {}).get("pipeline", ()))
        assert named <= set(record["pipelines"]), f"{stage}.{setting}"


def test_no_pipeline_belongs_to_two_models() -> None:
    claims = Counter(key for path in RECORDS for key in load(path)["pipelines"])
    assert [key for key, count in claims.items() if count > 1] == []


def test_each_verdict_on_a_prefix_cache_has_evidence(record: dict[str, Any]) -> None:
    for stage, setting, entry in entries(record):
        if setting == "side_effects":
            continue
        assert entry["evidence"] == "none" or len(entry["evidence"].split()) > 2, f"{stage}.{setting}"
        if entry["verdict"] in ("validated", "broken"):
            assert entry["evidence"] != "none", f"{stage}.{setting} is {entry['verdict']} on no evidence"


def test_sources_are_public(record: dict[str, Any]) -> None:
    public = re.compile(r"https://|vllm-omni\b|transformers\b|omnicfg\b")
    for stage, setting, entry in entries(record):
        assert public.match(entry["source"]), f"{stage}.{setting}"


def test_no_record_names_a_path_of_somebody_s_machine(path: Path) -> None:
    assert re.search(r"~/|[A-Z]:\\|/(home|mnt|opt|root|srv|tmp|Users|usr|var|work)/", path.read_text("utf-8")) is None


def test_no_entry_is_out_of_reach(record: dict[str, Any]) -> None:
    """The first that matches counts: one that matches whatever a later one matches hides it."""
    for stage in record["stages"]:
        for setting in SETTINGS:
            conditions = [entry.get("when", {}) for entry in stage.get(setting, ())]
            for index, later in enumerate(conditions):
                hidden_by = [earlier for earlier in conditions[:index] if covers(earlier, later)]
                assert hidden_by == [], f"{stage['stage']}.{setting}[{index}]"


def covers(earlier: dict[str, Any], later: dict[str, Any]) -> bool:
    return all(key in later and as_set(later[key]) <= as_set(wanted) for key, wanted in earlier.items())


def as_set(value: Any) -> set[Any]:
    return set(value) if isinstance(value, list) else {value}


def test_ranges_run_from_low_to_high(record: dict[str, Any]) -> None:
    for stage, setting, entry in entries(record):
        for low, high in ranges(entry.get("costs", {})):
            assert low <= high, f"{stage}.{setting}"


def ranges(node: Any) -> Iterator[tuple[float, float]]:
    if isinstance(node, dict):
        for value in node.values():
            yield from ranges(value)
    elif isinstance(node, list):
        if len(node) == 2 and all(isinstance(item, int | float) for item in node):
            yield node[0], node[1]
        else:
            for value in node:
                yield from ranges(value)


def test_added_memory_is_the_difference(record: dict[str, Any]) -> None:
    for stage, setting, entry in entries(record):
        memory = entry.get("costs", {}).get("host_memory_gib", {})
        if {"without", "with"} <= memory.keys():
            (low_without, high_without), (low_with, high_with) = memory["without"], memory["with"]
            expected = [low_with - high_without, high_with - low_without]
            assert memory["added"] == pytest.approx(expected), f"{stage}.{setting}"


@pytest.mark.parametrize(
    ("model", "stage", "when"),
    [
        ("qwen3-omni", "thinker", {"session_mode": "duplex"}),
        ("qwen3-omni", "thinker", {"model_runner": "v2"}),
        ("minicpm-o-4-5", "llm", {"session_mode": "duplex"}),
        ("minicpm-o-4-5", "llm", {"model_runner": "v2"}),
    ],
)
def test_caching_under_mrv2_or_duplex_is_refused(model: str, stage: str, when: dict[str, str]) -> None:
    record = load(profiles_dir() / "capabilities" / f"{model}.yaml")
    (stage_record,) = [candidate for candidate in record["stages"] if candidate["stage"] == stage]
    (found,) = [entry for entry in stage_record["prefix_caching"] if entry.get("when") == when]
    assert found["refuse"] is True


def test_the_figures_of_the_bundled_engine_are_those_of_the_committed_run() -> None:
    """``docs/benchmarks/engine_rows_h200.json``: every scenario against transformers, on both runners."""
    run = json.loads((Path(__file__).parents[2] / "docs/benchmarks/engine_rows_h200.json").read_text(encoding="utf-8"))
    tokens = {"v1": 0, "v2": 0}
    for runner in tokens:
        plain, pressure = (run["configurations"][f"float32-{runner}{load}"] for load in ("", "-pressure"))
        assert [total(plain, name) for name in ("requests", "hit_tokens")] == [70, 25_184]
        assert (pressure["preemptions"], total(pressure, "hit_tokens")) == (7, 20_576)
        assert max(one["worst"] for each in (plain, pressure) for one in each["transformers"]) <= 3.0e-6
        tokens[runner] = total(plain, "tokens")
    figures = [f"70 requests, 25,184 of {count:,} tokens hit, every row within 3.0e-6" for count in tokens.values()]
    cited = [
        entry["evidence"]
        for path in RECORDS
        for _, setting, entry in entries(load(path))
        if setting == "prefix_caching" and "engine_rows_h200" in entry["source"]
    ]
    assert len(cited) >= 5
    assert all(any(figure in text for figure in figures) for text in cited)
    assert any("7 preemptions and 20,576 hit tokens" in text for text in cited)


def total(configuration: dict[str, Any], name: str) -> int:
    return sum(verdict[name] for verdict in configuration["transformers"])


def test_every_shipped_pipeline_has_a_record() -> None:
    claimed = {key for path in RECORDS for key in load(path)["pipelines"]}
    shipped = {load(path).get("pipeline") for path in profiles_dir().glob("*.yaml")} - {None}
    assert shipped <= claimed
