"""``builtin:tiny-omni``: the text Thinker of an omni-modal model, small enough for two CPU cores.

The architecture is the one that Qwen3-Omni's Thinker has (transformers' ``Qwen3MoeForCausalLM``:
grouped-query attention with normalized queries and keys, a mixture of experts in every layer) at about five
million parameters. The weights are random: what it says means nothing, how it is computed is real.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnicfg.models._tokenizer import END_OF_TEXT, TURN_END, special_token_id, write_json, write_tokenizer

if TYPE_CHECKING:
    from numpy.typing import NDArray

VERSION = 1

SEED = 20260401
VOCABULARY = 1024
HIDDEN = 256
LAYERS = 4
HEADS = 8
KV_HEADS = 2
HEAD_DIM = 64
EXPERTS = 8
EXPERTS_PER_TOKEN = 2
EXPERT_WIDTH = 128
CONTEXT = 8192

RAW_BYTES = 256
"""The first entries of the vocabulary are single bytes, the others pieces of words."""

Shape = tuple[int, ...]


def write(directory: Path) -> None:
    """Writes the checkpoint: configuration, tokenizer, chat template, sampling defaults and weights."""
    write_json(directory / "config.json", config())
    write_json(directory / "generation_config.json", _generation_config())
    write_tokenizer(directory, VOCABULARY)
    _write_weights(directory / "model.safetensors")


def config() -> dict[str, Any]:
    """The checkpoint's ``config.json``, in the form that transformers 5 writes."""
    return {
        "architectures": ["Qwen3MoeForCausalLM"],
        "model_type": "qwen3_moe",
        "dtype": "float32",
        "vocab_size": VOCABULARY,
        "hidden_size": HIDDEN,
        "intermediate_size": EXPERTS_PER_TOKEN * EXPERT_WIDTH,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "num_experts": EXPERTS,
        "num_experts_per_tok": EXPERTS_PER_TOKEN,
        "moe_intermediate_size": EXPERT_WIDTH,
        "norm_topk_prob": True,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "hidden_act": "silu",
        "attention_bias": False,
        "rms_norm_eps": 1e-6,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0},
        "max_position_embeddings": CONTEXT,
        "tie_word_embeddings": False,
        "eos_token_id": special_token_id(TURN_END, VOCABULARY),
        "pad_token_id": special_token_id(END_OF_TEXT, VOCABULARY),
    }


def _generation_config() -> dict[str, Any]:
    return {
        "eos_token_id": [special_token_id(TURN_END, VOCABULARY), special_token_id(END_OF_TEXT, VOCABULARY)],
        "pad_token_id": special_token_id(END_OF_TEXT, VOCABULARY),
        "do_sample": False,
    }


def _write_weights(path: Path) -> None:
    from safetensors.numpy import save_file

    save_file({name: _tensor(name, shape) for name, shape in parameters()}, path, metadata={"format": "pt"})


def parameters() -> Iterator[tuple[str, Shape]]:
    """Name and shape of every tensor, under transformers' names; matrices are (outputs, inputs)."""
    yield "model.embed_tokens.weight", (VOCABULARY, HIDDEN)
    for layer in range(LAYERS):
        yield from _layer_parameters(f"model.layers.{layer}")
    yield "model.norm.weight", (HIDDEN,)
    yield "lm_head.weight", (VOCABULARY, HIDDEN)


def _layer_parameters(prefix: str) -> Iterator[tuple[str, Shape]]:
    yield f"{prefix}.input_layernorm.weight", (HIDDEN,)
    yield f"{prefix}.self_attn.q_proj.weight", (HEADS * HEAD_DIM, HIDDEN)
    yield f"{prefix}.self_attn.k_proj.weight", (KV_HEADS * HEAD_DIM, HIDDEN)
    yield f"{prefix}.self_attn.v_proj.weight", (KV_HEADS * HEAD_DIM, HIDDEN)
    yield f"{prefix}.self_attn.o_proj.weight", (HIDDEN, HEADS * HEAD_DIM)
    yield f"{prefix}.self_attn.q_norm.weight", (HEAD_DIM,)
    yield f"{prefix}.self_attn.k_norm.weight", (HEAD_DIM,)
    yield f"{prefix}.post_attention_layernorm.weight", (HIDDEN,)
    yield f"{prefix}.mlp.gate.weight", (EXPERTS, HIDDEN)
    for expert in range(EXPERTS):
        yield f"{prefix}.mlp.experts.{expert}.gate_proj.weight", (EXPERT_WIDTH, HIDDEN)
        yield f"{prefix}.mlp.experts.{expert}.up_proj.weight", (EXPERT_WIDTH, HIDDEN)
        yield f"{prefix}.mlp.experts.{expert}.down_proj.weight", (HIDDEN, EXPERT_WIDTH)


def _tensor(name: str, shape: Shape) -> NDArray[Any]:
    """A random tensor that depends on its name and the seed alone.

    The scale keeps activations near one through every layer, as in a trained model: ones in the norms, unit
    variance in the embedding, 1/√inputs in the matrices. ``RandomState`` because numpy has frozen its stream
    for good.
    """
    import numpy as np

    if len(shape) == 1:
        return np.ones(shape, dtype=np.float32)
    random = np.random.RandomState((SEED + zlib.crc32(name.encode())) % 2**32)
    values = random.standard_normal(shape)
    if name == "model.embed_tokens.weight":
        return values.astype(np.float32)
    values /= shape[1] ** 0.5
    if name == "lm_head.weight":
        values[:RAW_BYTES] *= 0.1  # so that answers are made of words rather than of broken UTF-8
    return values.astype(np.float32)
