"""The code predictor: a small decoder that gives a frame's other codes one by one, made to run inside a CUDA graph.

The same computation as transformers' ``Qwen3OmniMoeTalkerCodePredictorModelForConditionalGeneration``, whose checkpoint
names it reads. Only its form differs: projections that read the same input are one matrix, and what lies between
matrix products is one kernel on CUDA (:mod:`omnicfg.engine.speech.kernels`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import nn
from torch.nn import functional

from omnicfg.engine.speech.kernels import add_rms, attend, gated, rms, sample


@dataclass(frozen=True, slots=True)
class Shape:
    """The predictor's dimensions; ``codebooks`` counts the first one too, whose codes are given."""

    codebooks: int
    vocabulary: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    epsilon: float
    theta: float

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Self:
        """From ``code_predictor_config`` of a checkpoint."""
        heads = int(config["num_attention_heads"])
        rope = config.get("rope_parameters") or config
        return cls(
            int(config["num_code_groups"]),
            int(config["vocab_size"]),
            int(config["hidden_size"]),
            int(config["num_hidden_layers"]),
            heads,
            int(config["num_key_value_heads"]),
            int(config.get("head_dim") or config["hidden_size"] // heads),
            int(config["intermediate_size"]),
            float(config["rms_norm_eps"]),
            float(rope["rope_theta"]),
        )


class CodePredictor(nn.Module):
    """``forward`` gives ``[requests, codebooks - 1]`` codes; static shapes, no synchronisation, no allocation kept."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        others, hidden = shape.codebooks - 1, shape.hidden
        attention, kv = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim

        def weights(*size: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(size), requires_grad=False)

        self.embeddings = weights(others, shape.vocabulary, hidden)
        self.heads = weights(others, shape.vocabulary, hidden)
        self.norm = weights(hidden)
        self.input_norm = weights(shape.layers, hidden)
        self.post_norm = weights(shape.layers, hidden)
        self.query_norm = weights(shape.layers, shape.head_dim)
        self.key_norm = weights(shape.layers, shape.head_dim)
        self.qkv = weights(shape.layers, attention + 2 * kv, hidden)
        self.output = weights(shape.layers, hidden, attention)
        self.gate_up = weights(shape.layers, 2 * shape.intermediate, hidden)
        self.down = weights(shape.layers, hidden, shape.intermediate)
        places = torch.arange(shape.codebooks, dtype=torch.float32)
        frequencies = shape.theta ** (-torch.arange(0, shape.head_dim, 2, dtype=torch.float32) / shape.head_dim)
        angles = torch.outer(places, frequencies).repeat(1, 2)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def load(self, tensors: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Take the weights over, named as below ``code_predictor.``; :class:`ValueError` where names do not match."""
        named = dict(tensors)
        shape = self.shape
        with torch.no_grad():
            for group in range(shape.codebooks - 1):
                self.embeddings[group].copy_(_take(named, f"model.codec_embedding.{group}.weight"))
                self.heads[group].copy_(_take(named, f"lm_head.{group}.weight"))
            for layer in range(shape.layers):
                prefix = f"model.layers.{layer}"
                for name, parameter in (
                    ("input_layernorm", self.input_norm),
                    ("post_attention_layernorm", self.post_norm),
                    ("self_attn.q_norm", self.query_norm),
                    ("self_attn.k_norm", self.key_norm),
                    ("self_attn.o_proj", self.output),
                    ("mlp.down_proj", self.down),
                ):
                    parameter[layer].copy_(_take(named, f"{prefix}.{name}.weight"))
                parts = [_take(named, f"{prefix}.self_attn.{part}_proj.weight") for part in "qkv"]
                self.qkv[layer].copy_(torch.cat(parts))
                parts = [_take(named, f"{prefix}.mlp.{part}_proj.weight") for part in ("gate", "up")]
                self.gate_up[layer].copy_(torch.cat(parts))
            self.norm.copy_(_take(named, "model.norm.weight"))
        if named:
            raise ValueError(f"the code predictor has no use for {', '.join(sorted(named))}")

    def forward(self, hidden: torch.Tensor, embedded: torch.Tensor, noise: torch.Tensor | None = None) -> torch.Tensor:
        """Codes after a frame's first one.

        ``hidden`` (``[requests, hidden]``) is the decoder's state the first code was sampled from, ``embedded`` that
        code's embedding. ``noise`` (``[requests, codebooks - 1, TOP_K]``, Gumbel) samples, without it the largest
        logits win.
        """
        shape, count = self.shape, hidden.shape[0]
        size = (shape.layers, 2, count, shape.codebooks, shape.kv_heads, shape.head_dim)
        cache = torch.empty(size, dtype=hidden.dtype, device=hidden.device)
        inputs, place, codes = torch.stack((hidden, embedded), dim=1), 0, []
        for group in range(shape.codebooks - 1):
            state = self._pass(inputs, place, cache)[:, -1]
            logits = functional.linear(state, self.heads[group])
            code = logits.argmax(-1) if noise is None else sample(logits, noise[:, group])
            codes.append(code)
            place += inputs.shape[1]
            inputs = functional.embedding(code, self.embeddings[group])[:, None]
        return torch.stack(codes, dim=1)

    def _pass(self, inputs: torch.Tensor, place: int, cache: torch.Tensor) -> torch.Tensor:
        """The tokens ``[requests, tokens, hidden]`` from ``place`` on; their states behind the last norm."""
        shape, (count, tokens, _) = self.shape, inputs.shape
        residual = inputs.reshape(count * tokens, -1)
        normed = rms(residual, self.input_norm[0], shape.epsilon)
        for layer in range(shape.layers):
            mixed = functional.linear(normed, self.qkv[layer]).view(count, tokens, -1)
            norms = (self.query_norm[layer], self.key_norm[layer])
            keys, values = cache[layer, 0], cache[layer, 1]
            read = attend(mixed, place, keys, values, norms, (self.cos, self.sin), shape.epsilon)
            attended = functional.linear(read.view(count * tokens, -1), self.output[layer])
            normed, residual = add_rms(attended, residual, self.post_norm[layer], shape.epsilon)
            lifted = functional.linear(gated(functional.linear(normed, self.gate_up[layer])), self.down[layer])
            following = self.input_norm[layer + 1] if layer + 1 < shape.layers else self.norm
            normed, residual = add_rms(lifted, residual, following, shape.epsilon)
        return normed.view(count, tokens, -1)


def gumbel(seeds: torch.Tensor, frames: torch.Tensor, draws: torch.Tensor) -> torch.Tensor:
    """Gumbel noise ``[requests, *draws.shape]`` that depends on a request's seed and frame only, whoever is beside it.

    ``draws`` numbers the draws of a frame. Integer hashing (the finaliser of SplitMix64, Steele et al. 2014), since a
    generator cannot be kept for each request inside a CUDA graph.
    """
    lead = (..., *[None] * draws.dim())
    mixed = _mixed(_mixed(seeds[lead] + _GOLDEN * frames[lead]) + draws)
    uniform = ((mixed >> 11) & (2**53 - 1)).double().add(0.5) * 2.0**-53
    return -(-uniform.log()).log().float()


_GOLDEN, _FIRST, _SECOND = (value - 2**64 for value in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def _mixed(value: torch.Tensor) -> torch.Tensor:
    value = (value ^ ((value >> 30) & (2**34 - 1))) * _FIRST
    value = (value ^ ((value >> 27) & (2**37 - 1))) * _SECOND
    return value ^ ((value >> 31) & (2**33 - 1))


def _take(named: dict[str, torch.Tensor], name: str) -> torch.Tensor:
    if name not in named:
        raise ValueError(f"the checkpoint has no code_predictor.{name}")
    return named.pop(name)
