"""The layer that keeps payload rows in vLLM's paged KV cache, under the attention layers' own block table.

vLLM has a layer that only caches (``CacheOnlyAttentionLayer``, made for extracting hidden states); it registers like an
attention layer, so the KV cache manager allocates, shares, evicts and refcounts its blocks with all others. This one
differs in three things: it may be captured in full CUDA graphs (writing rows is one scatter with a fixed shape), it
keeps rows in the model's dtype when the KV cache is quantized, and it never calls a connector's per-layer hooks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import torch
from vllm.config import get_current_vllm_config
from vllm.distributed.parallel_state import get_tensor_model_parallel_rank
from vllm.forward_context import get_forward_context
from vllm.model_executor.models.extract_hidden_states import (
    CacheOnlyAttentionBackend,
    CacheOnlyAttentionLayer,
    CacheOnlyAttentionMetadataBuilder,
)
from vllm.utils.torch_utils import is_quantized_kv_cache
from vllm.v1.attention.backend import AttentionCGSupport


class _Builder(CacheOnlyAttentionMetadataBuilder):
    # Left at NEVER, the whole model would fall back to piecewise graphs.
    _cudagraph_support: ClassVar[AttentionCGSupport] = AttentionCGSupport.ALWAYS


class _Backend(CacheOnlyAttentionBackend):
    @staticmethod
    def get_name() -> str:
        return "OMNICFG_PAYLOAD_ROWS"

    @staticmethod
    def get_builder_cls() -> type[_Builder]:
        return _Builder


class PagedRows(CacheOnlyAttentionLayer):
    """``rows`` rows of ``width`` elements per token, in blocks of shape ``[blocks, rows, block_size,
    width / shards]``: of several shards, each tensor-parallel rank keeps its own part of every row.
    """

    def __init__(self, rows: int, width: int, shards: int, prefix: str) -> None:
        cache_config = get_current_vllm_config().cache_config
        if is_quantized_kv_cache(cache_config.cache_dtype):
            cache_config = replace(cache_config, cache_dtype="auto")
        part = width // shards
        super().__init__(num_heads=rows, head_size=part, cache_config=cache_config, prefix=prefix)
        self.attn_backend = _Backend
        first = get_tensor_model_parallel_rank() * part if shards > 1 else 0
        self._own = slice(first, first + part)

    def write(self, rows: Sequence[torch.Tensor]) -> None:
        """Scatter this step's rows, each of shape ``[tokens, width]``, to the slots of the step's tokens.

        A profile run has no slots yet. A batch padded for a graph has slots of -1: they go to block 0, which
        vLLM never gives to a request. Tokens beyond the slots are padding too.
        """
        slot_mapping = get_forward_context().slot_mapping
        slots = slot_mapping.get(self.layer_name) if isinstance(slot_mapping, dict) else None
        if slots is None or self.kv_cache.numel() == 0:
            return
        block_size, tokens = self.kv_cache.shape[2], slots.shape[0]
        slots = slots.clamp_min(0)
        blocks, offsets = slots // block_size, slots % block_size
        for index, row in enumerate(rows):
            self.kv_cache[blocks, index, offsets] = row[:tokens, self._own].to(self.kv_cache.dtype)
