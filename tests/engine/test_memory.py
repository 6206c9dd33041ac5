"""What a token costs in the KV cache."""

from __future__ import annotations

import pytest

from omnicfg.engine.memory import estimate, kv_memory, model_dtype, overhead
from omnicfg.engine.spec import EngineSpecError, PayloadRows

THINKER = {
    "dtype": "bfloat16",
    "thinker_config": {
        "text_config": {
            "num_hidden_layers": 48,
            "hidden_size": 2048,
            "num_attention_heads": 32,
            "num_key_value_heads": 4,
            "head_dim": 128,
        }
    },
}
LAYER_24 = PayloadRows((24,), final=False)
OWN = "take the file that belongs to the checkpoint"
DTYPES = "bfloat16, float, float16, float32, half"
CACHE_DTYPES = "auto, bfloat16, float, float16, float32, fp8, fp8_e4m3, fp8_e5m2, half"


def test_one_row_of_qwen3_omnis_thinker_costs_four_percent() -> None:
    cost = estimate(THINKER, {}, LAYER_24)
    assert (cost.kv_bytes, cost.payload_bytes) == (98_304, 4_096)
    assert cost.payload_share == pytest.approx(0.04)
    without = estimate(THINKER, {})
    assert without.payload_bytes == 0
    assert cost.tokens(10**10) / without.tokens(10**10) == pytest.approx(0.96, abs=1e-4)


def test_ranks_of_one_host_share_keys_and_values_and_rows() -> None:
    cost = estimate(THINKER, {"tensor_parallel_size": 2}, LAYER_24)
    assert (cost.kv_bytes, cost.payload_bytes) == (49_152, 2_048)
    replicated = estimate(THINKER, {"tensor_parallel_size": 2}, LAYER_24, shards=1)
    assert (replicated.kv_bytes, replicated.payload_bytes) == (49_152, 4_096)
    assert estimate(THINKER, {"tensor_parallel_size": 8}).kv_bytes == 98_304 // 4


def test_a_quantized_cache_leaves_the_rows_alone() -> None:
    cost = estimate(THINKER, {"kv_cache_dtype": "fp8"}, LAYER_24)
    assert (cost.kv_bytes, cost.payload_bytes) == (49_152, 4_096)


def test_only_whole_blocks_count() -> None:
    cost = estimate(THINKER, {}, LAYER_24)
    assert cost.tokens(cost.token_bytes * 33, block_size=16) == 32


def test_vllm_halves_float32_unless_told_otherwise() -> None:
    assert model_dtype({"dtype": "float32"}, {}) == "bfloat16"
    assert model_dtype({"dtype": "float32"}, {"dtype": "float32"}) == "float32"
    assert model_dtype({"torch_dtype": "float16"}, {"dtype": "auto"}) == "float16"


@pytest.mark.parametrize(
    ("config", "args", "named"),
    [
        ({}, {}, f"config.json: there is no num_hidden_layers: {OWN}"),
        (THINKER, {"dtype": "int4"}, f'dtype: "int4" is not known; set dtype to one of {DTYPES}'),
        ({**THINKER, "dtype": "int4"}, {}, f'config.json: dtype: "int4" is not known; set dtype to one of {DTYPES}'),
        ({**THINKER, "dtype": ["x"]}, {}, f'config.json: dtype: ["x"] is not known; set dtype to one of {DTYPES}'),
        (
            THINKER,
            {"kv_cache_dtype": "nvfp4"},
            f'kv_cache_dtype: the size of "nvfp4" is not known; set one of {CACHE_DTYPES}',
        ),
    ],
)
def test_what_is_not_known_is_said(config: dict[str, object], args: dict[str, object], named: str) -> None:
    with pytest.raises(EngineSpecError) as raised:
        estimate(config, args)
    assert str(raised.value) == named


@pytest.mark.parametrize(
    "name", ["num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim"]
)
@pytest.mark.parametrize(
    ("value", "written"), [(None, "null"), (True, "true"), ("48", '"48"'), (48.0, "48.0"), (0, "0"), ([1], "[1]")]
)
def test_what_is_no_number_is_said_as_the_file_has_it(name: str, value: object, written: str) -> None:
    config = {**THINKER["thinker_config"]["text_config"], name: value}  # type: ignore[index]
    if value is None and name in {"num_key_value_heads", "head_dim"}:
        estimate(config, {})  # transformers writes null for what a model leaves open
        return
    with pytest.raises(EngineSpecError) as raised:
        estimate(config, {})
    assert str(raised.value) == f"config.json: {name} is {written}, not a positive whole number: {OWN}"


def test_stages_of_a_pipeline_share_layers() -> None:
    assert estimate(THINKER, {"pipeline_parallel_size": 5}).kv_bytes == 98_304 // 48 * 10


def test_latent_attention_caches_one_vector_whatever_the_ranks() -> None:
    config = {"num_hidden_layers": 2, "hidden_size": 64, "kv_lora_rank": 512, "qk_rope_head_dim": 64}
    for ranks in (1, 8):
        assert estimate(config, {"tensor_parallel_size": ranks}).kv_bytes == 2 * 576 * 2


@pytest.mark.parametrize("changed", [{"sliding_window": 4096}, {"layer_types": ["linear_attention"]}])
def test_a_model_that_vllm_groups_is_not_estimated(changed: dict[str, object]) -> None:
    with pytest.raises(EngineSpecError, match="vLLM's to say"):
        estimate({**THINKER["thinker_config"]["text_config"], **changed}, {})  # type: ignore[index]


def test_what_is_left_of_a_device() -> None:
    args = {"gpu_memory_utilization": 0.5, "max_num_batched_tokens": 8192}
    left = kv_memory(THINKER, args, 100 * 2**30, 40 * 2**30)
    assert left == 10 * 2**30 - overhead(THINKER, args)
    assert overhead(THINKER, args) == pytest.approx(1.41 * 2**30, rel=0.01)
    assert overhead(THINKER, {**args, "enforce_eager": True}) < overhead(THINKER, args)
