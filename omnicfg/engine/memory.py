"""What a token costs in the KV cache, with and without payload rows, and how many fit into a device.

From a ``config.json`` and engine args, without vLLM or torch. The figures are vLLM's own
(``AttentionSpec.page_size_bytes``): keys and values of every layer, per rank. Payload rows are the residual stream,
which every tensor-parallel rank has whole; each keeps its part of it, or all where the parts could not be put together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from omnicfg.engine.spec import (
    EngineSpecError,
    PayloadRows,
    in_json,
    partial_layers,
    row_shards,
    size_of,
    text_config,
)

DEFAULT_BLOCK_SIZE: Final = 16
DEFAULT_UTILIZATION: Final = 0.92
"""vLLM 0.32.0's own ``gpu_memory_utilization``."""
DEFAULT_BATCHED_TOKENS: Final = 8192
"""vLLM 0.32.0's ``max_num_batched_tokens`` for a server on a device with 70 GiB and more."""

_GIB: Final = 2**30
_CONTEXT: Final = int(0.81 * _GIB)
"""Bytes beside the weights before anything is computed: the CUDA context and what libraries keep.

This and the next two were measured with vLLM 0.32.0 on an H200, 48 layers of hidden size 2,048 and 8,192 tokens a step:
57.71 GiB in use for 56.90 GiB of weights, 0.34 GiB at the peak of a step, 0.26 GiB set aside for CUDA graphs.
"""
_GRAPHS: Final = int(0.26 * _GIB)
_STEP_VALUES: Final = 11
"""Values per token and element of the hidden size that a step has in use at its peak."""

_ITEMSIZE = {"float32": 4, "float": 4, "float16": 2, "half": 2, "bfloat16": 2}
_FULL_PRECISION = ("float32", "float")
_FP8 = {"fp8", "fp8_e4m3", "fp8_e5m2"}
_ITS_OWN: Final = "take the file that belongs to the checkpoint"


@dataclass(frozen=True, slots=True)
class CacheEstimate:
    """Bytes per token on one rank: ``kv_bytes`` of keys and values, ``payload_bytes`` of rows."""

    kv_bytes: int
    payload_bytes: int

    @property
    def token_bytes(self) -> int:
        """Bytes per token in all."""
        return self.kv_bytes + self.payload_bytes

    @property
    def payload_share(self) -> float:
        """By how much the rows shrink the capacity in tokens: 0.04 is 4%."""
        return self.payload_bytes / self.token_bytes

    def tokens(self, kv_memory: int, block_size: int = DEFAULT_BLOCK_SIZE) -> int:
        """Tokens that fit into ``kv_memory`` bytes of one rank: whole blocks, as vLLM logs them at start."""
        return max(0, kv_memory) // (self.token_bytes * block_size) * block_size


def estimate(
    hf_config: Mapping[str, Any],
    engine_args: Mapping[str, Any],
    payload: PayloadRows | None = None,
    shards: int | None = None,
) -> CacheEstimate:
    """The estimate for a model whose layers all attend to the whole context; ``shards`` as in ``rows_engine_args``.

    Raises :class:`EngineSpecError` for other models, where ``hf_config`` does not say what is needed, and where a dtype
    is not known.
    """
    config = text_config(hf_config)
    for kind in partial_layers(config, bool(engine_args.get("disable_sliding_window"))):
        raise EngineSpecError(f"the size of the cache of {kind} layers is vLLM's to say")
    layers, hidden = (_number(config, name) for name in ("num_hidden_layers", "hidden_size"))
    layers = -(-layers // size_of(engine_args, "pipeline_parallel_size"))
    model_itemsize = _ITEMSIZE[model_dtype(hf_config, engine_args)]
    cache_itemsize = _cache_itemsize(str(engine_args.get("kv_cache_dtype") or "auto"), model_itemsize)
    kv_bytes = layers * _values_per_layer(config, hidden, engine_args) * cache_itemsize
    if payload is None:
        return CacheEstimate(kv_bytes, 0)
    width = hidden // (shards or row_shards(hf_config, engine_args))
    return CacheEstimate(kv_bytes, len(payload) * width * model_itemsize)


def kv_memory(hf_config: Mapping[str, Any], engine_args: Mapping[str, Any], device_memory: int, weights: int) -> int:
    """Bytes of one device that are left for the KV cache; negative where it does not hold the rest.

    ``device_memory`` is all of the device's memory, ``weights`` what the model's weights take of it, both in bytes.
    """
    return int(device_memory * utilization(engine_args)) - weights - overhead(hf_config, engine_args)


def utilization(engine_args: Mapping[str, Any]) -> float:
    """The share of a device's memory that the engine may have."""
    share = engine_args.get("gpu_memory_utilization")
    return float(share) if isinstance(share, int | float) else DEFAULT_UTILIZATION


def devices_of(engine_args: Mapping[str, Any]) -> int:
    """Over how many devices the weights of one replica are spread."""
    return size_of(engine_args, "tensor_parallel_size") * size_of(engine_args, "pipeline_parallel_size")


def overhead(hf_config: Mapping[str, Any], engine_args: Mapping[str, Any]) -> int:
    """Bytes of one device that vLLM takes beside weights and KV cache: an experienced figure, not a bound."""
    hidden = _number(text_config(hf_config), "hidden_size")
    tokens = size_of(engine_args, "max_num_batched_tokens", DEFAULT_BATCHED_TOKENS)
    step = tokens * hidden * _STEP_VALUES * _ITEMSIZE[model_dtype(hf_config, engine_args)]
    return _CONTEXT + step + (0 if engine_args.get("enforce_eager") else _GRAPHS)


def block_size(engine_args: Mapping[str, Any]) -> int:
    """Tokens of a block."""
    return size_of(engine_args, "block_size", DEFAULT_BLOCK_SIZE)


def model_dtype(hf_config: Mapping[str, Any], engine_args: Mapping[str, Any]) -> str:
    """The dtype in which vLLM runs the model: ``dtype``, or for ``auto`` the checkpoint's, halved from float32."""
    asked, where = engine_args.get("dtype") or "auto", "dtype"
    if asked == "auto":
        config = text_config(hf_config)
        sources = (config.get("dtype"), config.get("torch_dtype"), hf_config.get("dtype"), hf_config.get("torch_dtype"))
        stored, where = next((source for source in sources if source), "bfloat16"), "config.json: dtype"
        asked = "bfloat16" if stored in _FULL_PRECISION else stored
    if not isinstance(asked, str) or asked not in _ITEMSIZE:
        remedy = f"set dtype to one of {', '.join(sorted(_ITEMSIZE))}"
        raise EngineSpecError(f"{where}: {in_json(asked)} is not known; {remedy}")
    return asked


def itemsize(dtype: str) -> int:
    """Bytes of one value of a dtype that :func:`model_dtype` gives."""
    return _ITEMSIZE[dtype]


def _values_per_layer(config: Mapping[str, Any], hidden: int, engine_args: Mapping[str, Any]) -> int:
    """Cached values per token and layer on one rank: keys and values, or the one latent vector of MLA."""
    if config.get("kv_lora_rank"):
        return _number(config, "kv_lora_rank") + _number(config, "qk_rope_head_dim")
    heads = _number(config, "num_attention_heads")
    kv_heads = _number_or(config, "num_key_value_heads", heads)
    head_dim = _number_or(config, "head_dim", hidden // heads)
    return 2 * max(1, kv_heads // size_of(engine_args, "tensor_parallel_size")) * head_dim


def _cache_itemsize(kv_cache_dtype: str, model_itemsize: int) -> int:
    if kv_cache_dtype == "auto":
        return model_itemsize
    if kv_cache_dtype in _ITEMSIZE:
        return _ITEMSIZE[kv_cache_dtype]
    if kv_cache_dtype in _FP8:
        return 1
    known = ", ".join(sorted({"auto", *_ITEMSIZE, *_FP8}))
    raise EngineSpecError(f"kv_cache_dtype: the size of {in_json(kv_cache_dtype)} is not known; set one of {known}")


def _number(config: Mapping[str, Any], name: str) -> int:
    value = config.get(name)
    if type(value) is int and value > 0:
        return value
    what = f"{name} is {in_json(value)}, not a positive whole number" if name in config else f"there is no {name}"
    raise EngineSpecError(f"config.json: {what}: {_ITS_OWN}")


def _number_or(config: Mapping[str, Any], name: str, default: int) -> int:
    """As :func:`_number`; ``default`` where the model leaves it open."""
    return default if config.get(name) is None else _number(config, name)
