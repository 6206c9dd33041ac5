"""The engine args that switch payload rows on, and the reasons not to."""

from __future__ import annotations

from typing import Any

import pytest

from omnicfg.engine import spec
from omnicfg.engine.spec import EngineSpecError, PayloadRows

QWEN3 = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "num_hidden_layers": 48,
    "hidden_size": 2048,
    "sliding_window": None,
}
LAYER_24 = PayloadRows((24,), final=False)


def test_a_record_names_the_rows() -> None:
    rows = PayloadRows.from_record({"layers": [24], "embeddings": "recomputed", "positions": "all"}, QWEN3)
    assert rows == LAYER_24
    assert rows.names == ("layer 24",)
    both = PayloadRows.from_record({"layers": [12, 24, "final"]}, QWEN3)
    assert both.names == ("layer 12", "layer 24", "final")
    assert PayloadRows.from_config(both.to_config()) == both


TOLD = {"layers": [24], "layers_from": "talker_config.accept_hidden_layer"}


@pytest.mark.parametrize(
    ("config", "rows"),
    [
        ({"talker_config": {"accept_hidden_layer": 18}}, PayloadRows((18,), final=False)),
        ({"talker_config": {"accept_hidden_layer": [12, 18]}}, PayloadRows((12, 18), final=False)),
        ({"talker_config": {}}, LAYER_24),
        ({"talker_config": 5}, LAYER_24),
        ({}, LAYER_24),
    ],
)
def test_the_checkpoints_own_word_goes_over_the_records(config: dict[str, Any], rows: PayloadRows) -> None:
    assert PayloadRows.from_record(TOLD, {**QWEN3, **config}) == rows


def test_the_last_hidden_state_of_transformers_is_the_one_behind_the_norm() -> None:
    assert PayloadRows.from_record({"layers": [24, 48]}, QWEN3) == PayloadRows((24,), final=True)


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({}, "no rows"),
        ({"layers": [0]}, "layer 0 is the embedding"),
        ({"layers": [24, 12]}, "ascending"),
        ({"layers": 24}, "payload: layers must be layer numbers"),
        ({"layers": [True]}, "layer numbers"),
        ({"layers": ["last"]}, "layer numbers"),
        ({"layers": [24], "layers_from": "architectures"}, "config.json: architectures: layers must be layer numbers"),
    ],
)
def test_a_record_that_cannot_be_kept_is_refused(record: dict[str, Any], reason: str) -> None:
    with pytest.raises(EngineSpecError, match=reason):
        PayloadRows.from_record(record, QWEN3)


def test_layers_that_are_none_are_told_as_the_file_has_them() -> None:
    with pytest.raises(EngineSpecError) as raised:
        PayloadRows.from_record({"layers_from": "mine"}, {"mine": [24, None, True, "last"]})
    told = 'config.json: mine: layers must be layer numbers or `final`, not [24, null, true, "last"]'
    assert str(raised.value) == told


@pytest.mark.parametrize("depth", [None, [48], {"a": 1}, "48"])
def test_a_depth_that_is_no_number_makes_no_layer_the_last(depth: object) -> None:
    assert PayloadRows.from_record({"layers": [24]}, {"num_hidden_layers": depth}) == LAYER_24


def test_rows_are_switched_on_by_engine_args_alone() -> None:
    args = spec.rows_engine_args(LAYER_24, QWEN3, {}, socket="/run/rows.sock")
    assert args["hf_overrides"] == {"architectures": ["PayloadQwen3MoeForCausalLM"]}
    assert args["additional_config"] == {"payload_rows": {"layers": [24], "final": False, "shards": 1}}
    assert args["kv_transfer_config"]["kv_connector"] == "PayloadConnector"
    assert args["kv_transfer_config"]["kv_connector_extra_config"] == {"socket": "/run/rows.sock"}


def test_replicas_are_counted_for_the_connector() -> None:
    args = spec.rows_engine_args(LAYER_24, QWEN3, {"data_parallel_size": 2}, socket="/run/rows.sock")
    extra = args["kv_transfer_config"]["kv_connector_extra_config"]
    assert extra == {"socket": "/run/rows.sock", "replicas": 2}


@pytest.mark.parametrize(
    ("engine_args", "shards"),
    [
        ({}, 1),
        ({"tensor_parallel_size": 2}, 2),
        ({"tensor_parallel_size": 3}, 1),
        ({"tensor_parallel_size": 2, "nnodes": 2}, 1),
        ({"tensor_parallel_size": 2, "distributed_executor_backend": "ray"}, 1),
        ({"tensor_parallel_size": "2"}, 1),
    ],
    ids=["one rank", "two ranks", "the width does not divide", "two hosts", "ray", "no number"],
)
def test_a_row_is_spread_over_the_ranks_of_one_host(engine_args: dict[str, Any], shards: int) -> None:
    args = spec.rows_engine_args(LAYER_24, QWEN3, engine_args, socket="s")
    assert args["additional_config"]["payload_rows"]["shards"] == shards
    whole = spec.rows_engine_args(LAYER_24, QWEN3, engine_args, socket="s", shards=1)
    assert whole["additional_config"]["payload_rows"]["shards"] == 1


def test_what_the_user_overrides_stays() -> None:
    given = {"hf_overrides": {"rope_theta": 1.0}, "additional_config": {"mine": 1}}
    args = spec.rows_engine_args(LAYER_24, QWEN3, given, socket="s", ring_bytes=1 << 20, stall_seconds=2.0)
    assert args["hf_overrides"]["rope_theta"] == 1.0
    assert args["additional_config"]["mine"] == 1
    extra = args["kv_transfer_config"]["kv_connector_extra_config"]
    assert extra == {"socket": "s", "ring_bytes": 1 << 20, "stall_seconds": 2.0}


def test_a_layer_that_the_model_does_not_have_is_refused() -> None:
    with pytest.raises(EngineSpecError, match="48 layers"):
        spec.rows_engine_args(PayloadRows((49,), final=False), QWEN3, {}, socket="s")


def test_the_model_runner_is_chosen_by_the_environment() -> None:
    assert spec.environment("v2") == {"VLLM_USE_V2_MODEL_RUNNER": "1"}
    assert spec.environment("v1") == {"VLLM_USE_V2_MODEL_RUNNER": "0"}
    assert spec.environment(None) == {}
    with pytest.raises(EngineSpecError, match="neither v1 nor v2"):
        spec.environment("v3")


def test_every_replica_has_its_own_socket() -> None:
    assert spec.socket_path("/run/rows.sock", 1, 0) == "/run/rows.sock"
    assert [spec.shard_path("/run/rows.sock", rank) for rank in (0, 1)] == ["/run/rows.sock", "/run/rows.sock.shard1"]
    assert spec.socket_path("/run/rows.sock", 2, 1) == "/run/rows.sock.1"


SUPPORTED = [
    QWEN3,
    {"architectures": ["A"], "sliding_window": 32768, "use_sliding_window": False},
    {"architectures": ["A"], "layer_types": ["full_attention", "full_attention"]},
    {"architectures": ["A"], "thinker_config": {"text_config": {"num_hidden_layers": 48}}},
]


@pytest.mark.parametrize("config", SUPPORTED)
def test_full_attention_is_supported(config: dict[str, Any]) -> None:
    args = {"tensor_parallel_size": 8, "data_parallel_size": 2, "kv_cache_dtype": "fp8"}
    assert list(spec.refusals(args, config, LAYER_24)) == []


REFUSED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"sliding_window": 4096}, {}, "sliding-window"),
    ({"layer_types": ["full_attention", "sliding_attention"]}, {}, "sliding-window"),
    ({"layer_types": ["linear_attention", "full_attention"]}, {}, "linear_attention"),
    ({"mamba_d_state": 16}, {}, "Mamba"),
    ({"text_config": {"full_attention_interval": 4}}, {}, "linear-attention"),
    ({"kv_lora_rank": 512}, {}, "MLA"),
    ({"is_encoder_decoder": True}, {}, "encoder-decoder"),
    ({}, {"decode_context_parallel_size": 2}, "decode_context_parallel_size"),
    ({}, {"prefill_context_parallel_size": 2}, "prefill_context_parallel_size"),
    ({}, {"pipeline_parallel_size": 2}, "pipeline_parallel_size"),
    ({}, {"speculative_config": {"method": "ngram"}}, "speculative_config"),
    ({}, {"kv_transfer_config": {"kv_connector": "NixlConnector"}}, "kv_transfer_config"),
    ({}, {"kv_offloading_size": 4}, "kv_offloading_size"),
    ({}, {"kv_sharing_fast_prefill": True}, "kv_sharing_fast_prefill"),
    ({}, {"enable_dbo": True}, "enable_dbo"),
]


@pytest.mark.parametrize(("config", "args", "named"), REFUSED)
def test_what_vllm_groups_differently_is_refused_with_a_reason(
    config: dict[str, Any], args: dict[str, Any], named: str
) -> None:
    [refusal] = spec.refusals(args, {**QWEN3, **config}, LAYER_24)
    assert named in refusal.why
    assert refusal.setting == (named if args else None)
    with pytest.raises(EngineSpecError, match=named):
        spec.rows_engine_args(LAYER_24, {**QWEN3, **config}, args, socket="s")


def test_all_reasons_are_told_and_without_a_config_those_of_the_settings() -> None:
    args = {"pipeline_parallel_size": 2, "enable_dbo": True, "hf_overrides": "mine"}
    told = [refusal.setting for refusal in spec.refusals(args, {**QWEN3, "kv_lora_rank": 4}, LAYER_24)]
    assert told == ["pipeline_parallel_size", "enable_dbo", "hf_overrides", None]
    assert [refusal.setting for refusal in spec.refusals(args)] == told[:3]


def test_a_disabled_sliding_window_is_supported() -> None:
    assert not list(spec.refusals({"disable_sliding_window": True}, {**QWEN3, "sliding_window": 4096}))


@pytest.mark.parametrize("config", [{}, {"architectures": []}, {"architectures": "Qwen3ForCausalLM"}])
def test_a_model_without_architecture_is_refused(config: dict[str, Any]) -> None:
    [refusal] = spec.refusals({}, config)
    assert "names no architecture" in refusal.why
    assert not list(spec.refusals({"hf_overrides": {"architectures": ["A"]}}, config))


@pytest.mark.parametrize("size", ["2", 2.5, None, True, 1])
def test_a_size_that_is_none_is_left_to_others(size: object) -> None:
    assert not list(spec.refusals({"pipeline_parallel_size": size}))
