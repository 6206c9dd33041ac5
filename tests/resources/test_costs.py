"""What a setting costs, from records and from a model directory."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import omnicfg
from omnicfg.differences.comparison import compare
from omnicfg.resources.costs import measured, token_size
from tests.conftest import WriteProfile

CONFIG = {
    "model_type": "qwen3",
    "architectures": ["Qwen3ForCausalLM"],
    "num_hidden_layers": 4,
    "hidden_size": 64,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "dtype": "bfloat16",
}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    return tmp_path


def test_measured_costs_are_one_line() -> None:
    costs = {"host_memory_gib": {"added": [1, 2]}, "loads": [{"load": "decode", "throughput_percent": [-1, 2]}]}
    assert measured({"costs": costs}) == "1 to 2 GiB of host memory; decode: throughput -1 to +2%"
    assert measured({}) is None


def test_a_token_takes_what_layers_heads_and_dtype_say(model: Path) -> None:
    plan = omnicfg.resolve("qwen2_5_omni")
    assert token_size(plan, plan.stages[1], model) == "KV cache 0.5 KiB a token and rank"


def test_rows_that_a_later_stage_reads_are_told(model: Path) -> None:
    plan = omnicfg.resolve("tiny-omni")
    assert token_size(plan, plan.stages[0], model) == (
        "KV cache 1 KiB a token and rank; payload rows on the bundled engine 0.2 KiB more (20.0% fewer tokens)"
    )


def test_what_the_directory_does_not_say_is_not_known(tmp_path: Path) -> None:
    plan = omnicfg.resolve("qwen2_5_omni")
    assert token_size(plan, plan.stages[0], tmp_path) is None
    (tmp_path / "config.json").write_text("{}")
    assert token_size(plan, plan.stages[0], tmp_path) is None


def test_a_comparison_tells_it_where_the_size_of_a_token_changes(model: Path, profile_file: WriteProfile) -> None:
    def plans(setting: str) -> Callable[[str], omnicfg.Plan]:
        path = profile_file(
            f"pipeline: qwen3_tts\nasync_chunk: false\nstages: [{{stage_id: 0, {setting}}}]\n", f"{len(setting)}.yaml"
        )
        return lambda platform: omnicfg.resolve(path, platform=platform)

    found = compare(plans("max_num_seqs: 8"), plans("max_num_seqs: 9, kv_cache_dtype: fp8"), ["cuda"], model)
    costs = {each.change.key: each.known.cost for each in found.changes}
    assert costs == {"max_num_seqs": None, "kv_cache_dtype": "KV cache 0.2 KiB a token and rank"}
