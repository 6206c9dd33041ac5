"""What a token costs in the KV cache."""

from __future__ import annotations

import pytest

from omnicfg.engine.memory import estimate, model_dtype
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


def test_one_row_of_qwen3_omnis_thinker_costs_four_percent() -> None:
    cost = estimate(THINKER, {}, LAYER_24)
    assert (cost.kv_bytes, cost.payload_bytes) == (98_304, 4_096)
    assert cost.payload_share == pytest.approx(0.04)
    without = estimate(THINKER, {})
    assert without.payload_bytes == 0
    assert cost.tokens(10**10) / without.tokens(10**10) == pytest.approx(0.96, abs=1e-4)


def test_ranks_share_keys_and_values_but_not_rows() -> None:
    cost = estimate(THINKER, {"tensor_parallel_size": 2}, LAYER_24)
    assert (cost.kv_bytes, cost.payload_bytes) == (49_152, 4_096)
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
        ({}, {}, "num_hidden_layers"),
        (THINKER, {"dtype": "int4"}, "dtype"),
        (THINKER, {"kv_cache_dtype": "nvfp4"}, "kv_cache_dtype"),
    ],
)
def test_what_is_not_known_is_said(config: dict[str, object], args: dict[str, object], named: str) -> None:
    with pytest.raises(EngineSpecError, match=named):
        estimate(config, args)
