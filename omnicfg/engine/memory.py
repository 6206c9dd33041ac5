"""What a token costs in the KV cache, with and without payload rows, from a ``config.json`` and engine args. Pure.

The figures are vLLM's own (``AttentionSpec.page_size_bytes``): keys and values of every layer, per rank. Payload rows
are the residual stream, which every tensor-parallel rank has whole, so they do not get smaller with more ranks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from omnicfg.engine.spec import EngineSpecError, PayloadRows, text_config

DEFAULT_BLOCK_SIZE = 16
_ITEMSIZE = {"float32": 4, "float": 4, "float16": 2, "half": 2, "bfloat16": 2}
_FULL_PRECISION = {"float32", "float"}


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
        return kv_memory // (self.token_bytes * block_size) * block_size


def estimate(
    hf_config: Mapping[str, Any], engine_args: Mapping[str, Any], payload: PayloadRows | None = None
) -> CacheEstimate:
    """The estimate for a model whose layers all attend to the whole context.

    Raises :class:`EngineSpecError` where ``hf_config`` does not say what is needed, or a dtype is not known.
    """
    config = text_config(hf_config)
    layers, hidden, heads = (
        _number(config, name) for name in ("num_hidden_layers", "hidden_size", "num_attention_heads")
    )
    kv_heads = int(config.get("num_key_value_heads") or heads)
    head_dim = int(config.get("head_dim") or hidden // heads)
    ranks = int(engine_args.get("tensor_parallel_size") or 1)
    model_itemsize = _ITEMSIZE[model_dtype(hf_config, engine_args)]
    cache_itemsize = _cache_itemsize(str(engine_args.get("kv_cache_dtype") or "auto"), model_itemsize)
    kv_bytes = 2 * layers * max(1, kv_heads // ranks) * head_dim * cache_itemsize
    return CacheEstimate(kv_bytes, 0 if payload is None else len(payload) * hidden * model_itemsize)


def model_dtype(hf_config: Mapping[str, Any], engine_args: Mapping[str, Any]) -> str:
    """The dtype in which vLLM runs the model: ``dtype``, or for ``auto`` the checkpoint's, halved from float32."""
    asked = str(engine_args.get("dtype") or "auto")
    if asked == "auto":
        config = text_config(hf_config)
        sources = (config.get("dtype"), config.get("torch_dtype"), hf_config.get("dtype"), hf_config.get("torch_dtype"))
        stored = next((str(source) for source in sources if source), "bfloat16")
        asked = "bfloat16" if stored in _FULL_PRECISION else stored
    if asked not in _ITEMSIZE:
        raise EngineSpecError(f"dtype: {asked!r} is not known; use one of {', '.join(sorted(_ITEMSIZE))}")
    return asked


def _cache_itemsize(kv_cache_dtype: str, model_itemsize: int) -> int:
    if kv_cache_dtype == "auto":
        return model_itemsize
    if kv_cache_dtype in _ITEMSIZE:
        return _ITEMSIZE[kv_cache_dtype]
    if kv_cache_dtype in {"fp8", "fp8_e4m3", "fp8_e5m2"}:
        return 1
    raise EngineSpecError(f"kv_cache_dtype: the size of {kv_cache_dtype!r} is not known")


def _number(config: Mapping[str, Any], name: str) -> int:
    value = config.get(name)
    if type(value) is not int or value < 1:
        raise EngineSpecError(f"config.json: {name} is {value!r}, not a positive number")
    return value
