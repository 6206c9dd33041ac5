"""Capability records: which entry counts in which situation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from omnicfg.catalog.capabilities import Situation, entry_for, record_of, side_effects, stage_record
from omnicfg.catalog.upstream import pipelines
from tests.catalog.records import records

HERE = Situation(
    engine="vllm-omni",
    pipeline="qwen3_omni_moe",
    platform="cuda",
    model_runner="v1",
    session_mode="turn",
    async_chunk=True,
    prefix_caching=True,
)


@pytest.mark.parametrize(
    ("when", "holds"),
    [
        ({}, True),
        ({"platform": "cuda"}, True),
        ({"platform": "npu"}, False),
        ({"platform": ["npu", "cuda"]}, True),
        ({"platform": []}, False),
        ({"platform": "cuda", "model_runner": "v2"}, False),
        ({"prefix_caching": True, "async_chunk": True}, True),
        ({"prefix_caching": False}, False),
    ],
)
def test_when_an_entry_holds(when: dict[str, Any], holds: bool) -> None:
    assert HERE.matches(when) is holds


def test_the_record_of_a_pipeline() -> None:
    record = record_of("qwen3_omni_moe")
    assert record is not None
    assert record["title"] == "Qwen3-Omni"
    assert record_of("no_such_pipeline") is None


def test_the_record_of_a_stage() -> None:
    thinker = stage_record("qwen3_omni_moe", "thinker")
    assert thinker is not None
    assert thinker["stage"] == "thinker"
    assert stage_record("qwen3_omni_moe", "no such stage") is None


@pytest.mark.parametrize(
    ("change", "verdict", "refused"),
    [
        ({}, "validated", False),
        ({"session_mode": "duplex"}, "unvalidated", True),
        ({"model_runner": "v2"}, "unvalidated", True),
        ({"engine": "bundled"}, "validated", False),
        ({"engine": "bundled", "model_runner": "v2"}, "validated", False),
        ({"engine": "bundled", "session_mode": "duplex"}, "unvalidated", True),
    ],
)
def test_the_first_entry_that_holds_counts(change: dict[str, Any], verdict: str, refused: bool) -> None:
    entry = entry_for("qwen3_omni_moe", "thinker", "prefix_caching", replace(HERE, **change))
    assert entry is not None
    assert (entry["verdict"], bool(entry.get("refuse"))) == (verdict, refused)
    assert entry["evidence"]
    assert entry["source"]


def test_what_nothing_is_known_of() -> None:
    assert entry_for("qwen3_omni_moe", "thinker", "no_such_capability", HERE) is None
    assert entry_for("no_such_pipeline", "thinker", "prefix_caching", HERE) is None
    assert list(side_effects("no_such_pipeline", "thinker", HERE)) == []


def test_what_else_the_cache_of_qwen3_omni_changes() -> None:
    effects = list(side_effects("qwen3_omni_moe", "thinker", HERE))
    assert effects
    assert list(side_effects("qwen3_omni_moe", "thinker", replace(HERE, prefix_caching=False))) != effects


def test_records_name_stages_that_their_pipelines_have() -> None:
    for record in records():
        for key in record["pipelines"]:
            known = {stage["model_stage"] for stage in pipelines()[key]["stages"]}
            assert known & {stage["stage"] for stage in record["stages"]}, (record["title"], key)


def test_no_pipeline_has_two_records() -> None:
    keys = [key for record in records() for key in record["pipelines"]]
    assert len(set(keys)) == len(keys)
