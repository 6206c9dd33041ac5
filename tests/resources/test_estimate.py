"""What a plan's stages hold in their KV caches: from the plan, the model's files, and the memory of a device."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

import omnicfg
from omnicfg.errors import ResolveError
from omnicfg.plan import Plan
from omnicfg.resources.estimate import NoEstimate, StageEstimate, estimates

GIB = 2**30
THINKER = {
    "num_hidden_layers": 48,
    "hidden_size": 2048,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
}
TALKER = {"num_hidden_layers": 20, "hidden_size": 1024, "num_attention_heads": 16, "num_key_value_heads": 2}
CONFIG: dict[str, Any] = {
    "architectures": ["Qwen3OmniMoeForConditionalGeneration"],
    "model_type": "qwen3_omni_moe",
    "dtype": "bfloat16",
    "thinker_config": {"text_config": THINKER},
    "talker_config": {"accept_hidden_layer": 24, "text_config": TALKER},
}
DEVICE = int(139.8 * GIB)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Qwen3-Omni's dimensions, and the tables of its weights without the weights."""
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    weights(
        tmp_path / "model-1-of-2.safetensors", **{"thinker.model.embed_tokens.weight": ("BF16", int(56.9 * GIB) // 2)}
    )
    weights(tmp_path / "model-2-of-2.safetensors", **{"talker.model.norm.weight": ("BF16", GIB // 2)})
    return tmp_path


def weights(path: Path, **tensors: tuple[str, int]) -> None:
    """A safetensors file's table: each tensor's dtype and number of values."""
    sizes = {"BF16": 2, "F32": 4, "F8_E4M3": 1}
    table = {
        name: {"dtype": dtype, "shape": [values], "data_offsets": [0, values * sizes[dtype]]}
        for name, (dtype, values) in tensors.items()
    }
    text = json.dumps({"__metadata__": {"format": "pt"}, **table}).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text)


def plan(**overrides: Any) -> Plan:
    return omnicfg.resolve(
        "qwen3_omni_moe", overrides={key.replace("__", "."): value for key, value in overrides.items()}
    )


def first(compiled: Plan, model: Path, device: int | None = DEVICE) -> StageEstimate:
    found = next(iter(estimates(compiled, model, device)))
    assert isinstance(found, StageEstimate), found
    return found


def test_each_stage_that_generates_is_estimated_from_its_own_part(model: Path) -> None:
    thinker, talker = estimates(plan(), model, DEVICE)
    assert isinstance(thinker, StageEstimate)
    assert isinstance(talker, StageEstimate)
    assert (thinker.cache.kv_bytes, thinker.cache.payload_bytes) == (98_304, 4_096)
    assert (talker.cache.kv_bytes, talker.cache.payload_bytes) == (2 * 20 * 2 * 64 * 2, 0)
    assert thinker.origin == "90% of 139.8 GiB less 56.9 GiB of weights and 2.4 GiB for computing"
    assert "less 1.0 GiB of weights" in talker.origin


def test_payload_rows_are_those_of_a_plan_whose_later_stage_reads_them(model: Path) -> None:
    alone = omnicfg.resolve("qwen3_omni_moe_thinking", pipeline="qwen3_omni_moe_thinker_only")
    assert first(alone, model).cache.payload_bytes == 0


def test_a_gpus_capacity_is_what_vllm_logged_there(model: Path) -> None:
    """``python -m benchmarks.engine.capacity``: the Thinker's dimensions, dummy weights, an H200, vLLM's own share."""
    run = json.loads((Path(__file__).parents[2] / "docs/benchmarks/engine_capacity_h200.json").read_text())["servers"]
    asked = plan(stages__0__gpu_memory_utilization=None, stages__0__max_num_batched_tokens=8192)
    found = first(asked, model)
    assert found.tokens_without_rows == pytest.approx(run["capacity-plain"]["cache_tokens"], rel=0.03)
    assert found.tokens == pytest.approx(run["capacity-ours"]["cache_tokens"], rel=0.03)


def test_it_holds_for_a_share_too(model: Path) -> None:
    """The same model beside another server: what vLLM logged for 0.47 of that device, without rows and with them."""
    found = first(plan(stages__0__gpu_memory_utilization=0.47, stages__0__max_num_batched_tokens=8192), model)
    assert found.tokens_without_rows == pytest.approx(80_800, rel=0.03)
    assert found.tokens == pytest.approx(77_232, rel=0.03)


def test_weights_count_in_the_dtype_that_they_are_served_in(model: Path) -> None:
    weights(model / "model-1-of-2.safetensors", **{"thinker.a": ("F32", GIB), "thinker.b": ("F8_E4M3", GIB)})
    assert "less 3.0 GiB of weights" in first(plan(), model).origin


def test_ranks_share_weights_and_keys(model: Path) -> None:
    both = first(plan(stages__0__tensor_parallel_size=2, stages__0__devices="0,1"), model)
    assert both.cache.kv_bytes == 49_152
    assert "less 28.4 GiB of weights" in both.origin


def test_a_size_that_the_plan_gives_needs_no_device(model: Path) -> None:
    found = first(plan(stages__0__kv_cache_memory_bytes=GIB, stages__0__block_size=32), model, None)
    assert (found.kv_memory, found.origin, found.tokens) == (GIB, "kv_cache_memory_bytes", GIB // 102_400 // 32 * 32)


def test_what_is_not_known_is_said(model: Path, tmp_path: Path) -> None:
    assert (first(plan(), model, None).kv_memory, first(plan(), model, None).tokens) == (None, None)
    for path in model.glob("*.safetensors"):
        path.unlink()
    assert "holds no safetensors file" in first(plan(), model).origin
    (model / "config.json").write_text(json.dumps({**CONFIG, "thinker_config": {"sliding_window": 4096}}))
    found = next(iter(estimates(plan(), model, DEVICE)))
    assert found == NoEstimate(0, "thinker", "the size of the cache of sliding-window layers is vLLM's to say")
    (model / "config.json").unlink()
    assert all(isinstance(one, NoEstimate) and "holds no config.json" in one.why for one in estimates(plan(), model))


def test_a_config_that_cannot_be_read_is_refused(model: Path) -> None:
    (model / "config.json").write_text("{")
    with pytest.raises(ResolveError, match="is not JSON"):
        list(estimates(plan(), model))


@pytest.mark.parametrize("table", [b"", b"\xff" * 8, struct.pack("<Q", 2) + b"[]", struct.pack("<Q", 1) + b"{"])
def test_weights_of_which_a_part_is_no_file_of_weights_are_not_known(model: Path, table: bytes) -> None:
    """Such as the pointer that git leaves without LFS, or half of a download."""
    (model / "model-1-of-2.safetensors").write_bytes(table)
    found = first(plan(), model)
    assert (found.kv_memory, found.tokens) == (None, None)
    assert "model-1-of-2.safetensors is no whole safetensors file" in found.origin


def index(path: Path, **files: str) -> None:
    """The index of a checkpoint in pieces: tensor → file."""
    path.write_text(json.dumps({"metadata": {}, "weight_map": files}))


def test_weights_that_are_there_twice_count_once(model: Path) -> None:
    """Mistral's repositories hold them whole and in pieces; vLLM loads what is whole."""
    weights(model / "consolidated.safetensors", layers=("BF16", GIB))
    assert "less 2.0 GiB of weights" in first(plan(), model).origin
    pieces = first(plan(stages__0__load_format="hf"), model)
    assert "less 56.9 GiB of weights" in pieces.origin


def test_only_what_the_index_names_counts(model: Path) -> None:
    weights(model / "another.safetensors", **{"thinker.other": ("BF16", GIB)})
    assert "less 58.9 GiB of weights" in first(plan(), model).origin
    names = {"thinker.model.embed_tokens.weight": "model-1-of-2.safetensors", "talker.a": "model-2-of-2.safetensors"}
    index(model / "model.safetensors.index.json", **names)
    assert "less 56.9 GiB of weights" in first(plan(), model).origin


def test_a_piece_that_the_index_names_and_that_is_missing(model: Path) -> None:
    index(model / "model.safetensors.index.json", a="model-1-of-2.safetensors", b="model-3-of-3.safetensors")
    assert "model-3-of-3.safetensors is no whole safetensors file" in first(plan(), model).origin


@pytest.mark.parametrize("text", ["{", "[]", '{"weight_map": 5}'])
def test_an_index_that_is_none_is_not_asked(model: Path, text: str) -> None:
    (model / "model.safetensors.index.json").write_text(text)
    assert "less 56.9 GiB of weights" in first(plan(), model).origin
