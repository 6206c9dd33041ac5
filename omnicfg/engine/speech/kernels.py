"""What the code predictor computes beside matrix products, each in one kernel on CUDA and in plain PyTorch elsewhere.

A frame takes a hundred and more such steps one after another over very little data, so that what counts is how many
kernels there are. Norms and gates are vLLM's own; attention over a handful of places and the choice of a code have no
kernel there.
"""

from __future__ import annotations

import torch
from torch.nn import functional

try:
    import triton
    import triton.language as tl
except ModuleNotFoundError:  # no GPU, no Triton
    triton = None

TOP_K, TOP_P = 50, 0.8
"""How transformers samples these codes where it samples the first one (``Qwen3OmniMoeTalker.generate``)."""


def rms(states: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    """RMSNorm of ``[rows, width]``."""
    if states.is_cuda:
        from vllm import _custom_ops

        normed = torch.empty_like(states)
        _custom_ops.rms_norm(normed, states, weight, epsilon)
        return normed
    wide = states.float()
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + epsilon)
    return weight * wide.to(states.dtype)


def add_rms(
    added: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, epsilon: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """The sum, normed, and the sum itself; both may take the arguments' place."""
    if added.is_cuda:
        from vllm import _custom_ops

        _custom_ops.fused_add_rms_norm(added, residual, weight, epsilon)
        return added, residual
    total = added + residual
    return rms(total, weight, epsilon), total


def gated(both: torch.Tensor) -> torch.Tensor:
    """``silu`` of the left half of each row, times the right half."""
    if both.is_cuda:
        product = both.new_empty(both.shape[0], both.shape[1] // 2)
        torch.ops._C.silu_and_mul(product, both)
        return product
    gate, up = both.chunk(2, dim=-1)
    return functional.silu(gate) * up


def attend(
    mixed: torch.Tensor,
    place: int,
    keys: torch.Tensor,
    values: torch.Tensor,
    norms: tuple[torch.Tensor, torch.Tensor],
    angles: tuple[torch.Tensor, torch.Tensor],
    epsilon: float,
) -> torch.Tensor:
    """Attention of the tokens at ``place`` and behind it over themselves and all places before.

    ``mixed`` is ``[requests, tokens, (heads + 2 * kv heads) * width]``: queries, keys, values. ``keys`` and ``values``
    (``[requests, places, kv heads, width]``) hold the places before; those of the tokens are written to them. ``norms``
    are the weights of the queries' and keys' RMSNorm, ``angles`` cosine and sine of every place. ``[requests, tokens,
    heads * width]``.
    """
    arguments = (mixed, place, keys, values, norms, angles, epsilon)
    return _attend_fused(*arguments) if mixed.is_cuda else _attend_plainly(*arguments)


def sample(logits: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    """One code for each row of ``logits`` among the ``TOP_K`` largest that make up ``TOP_P``; ``noise`` (``[rows,
    TOP_K]``) is Gumbel, in the order of the logits from the largest down.
    """
    return _sample_fused(logits, noise) if logits.is_cuda else _sample_plainly(logits, noise)


def _sample_plainly(logits: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    values, places = logits.float().topk(min(TOP_K, logits.shape[-1]), dim=-1)
    shares = values.softmax(-1)
    kept = shares.cumsum(-1) - shares < TOP_P
    scores = (values + noise[:, : values.shape[-1]]).masked_fill(~kept, float("-inf"))
    return places.gather(-1, scores.argmax(-1, keepdim=True)).squeeze(-1)


def _sample_fused(logits: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    rows, width = logits.shape
    count = min(TOP_K, width)
    codes = torch.empty(rows, dtype=torch.int64, device=logits.device)
    _sample_kernel[(rows,)](
        logits,
        noise,
        codes,
        noise.stride(0),
        WIDTH=width,
        BLOCK=triton.next_power_of_2(width),
        COUNT=count,
        RANKS=triton.next_power_of_2(count),
        TOP_P=TOP_P,
        num_warps=8,
    )
    return codes


def _attend_plainly(
    mixed: torch.Tensor,
    place: int,
    keys: torch.Tensor,
    values: torch.Tensor,
    norms: tuple[torch.Tensor, torch.Tensor],
    angles: tuple[torch.Tensor, torch.Tensor],
    epsilon: float,
) -> torch.Tensor:
    count, tokens, _ = mixed.shape
    kv_heads, width = keys.shape[2:]
    split = mixed.view(count, tokens, -1, width)
    heads = split.shape[2] - 2 * kv_heads
    query, key, value = split.split([heads, kv_heads, kv_heads], dim=2)
    places = slice(place, place + tokens)
    cos, sin = (angle[places, None] for angle in angles)
    keys[:, places] = _turned(rms(key, norms[1], epsilon), cos, sin)
    values[:, places] = value
    read = functional.scaled_dot_product_attention(
        _turned(rms(query, norms[0], epsilon), cos, sin).transpose(1, 2),
        keys[:, : place + tokens].transpose(1, 2),
        values[:, : place + tokens].transpose(1, 2),
        attn_mask=torch.ones(tokens, place + tokens, dtype=torch.bool, device=mixed.device).tril(place),
        enable_gqa=True,
    )
    return read.transpose(1, 2).reshape(count, tokens, heads * width)


def _turned(states: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary positions."""
    left, right = states.chunk(2, dim=-1)
    return states * cos.to(states.dtype) + torch.cat((-right, left), dim=-1) * sin.to(states.dtype)


def _attend_fused(
    mixed: torch.Tensor,
    place: int,
    keys: torch.Tensor,
    values: torch.Tensor,
    norms: tuple[torch.Tensor, torch.Tensor],
    angles: tuple[torch.Tensor, torch.Tensor],
    epsilon: float,
) -> torch.Tensor:
    count, tokens, columns = mixed.shape
    places, kv_heads, width = keys.shape[1:]
    heads = columns // width - 2 * kv_heads
    read = mixed.new_empty(count, tokens, heads * width)
    _attend_kernel[(count, kv_heads)](
        mixed,
        keys,
        values,
        read,
        *norms,
        *angles,
        place,
        width**-0.5,
        epsilon,
        TOKENS=tokens,
        PLACES=triton.next_power_of_2(places),
        STRIDE=places * kv_heads * width,
        HEADS=heads,
        KV_HEADS=kv_heads,
        WIDTH=width,
        num_warps=1,  # sums then need no barrier
    )
    return read


if triton is not None:

    @triton.jit
    def _turned_head(  # type: ignore[no-untyped-def]
        start, norm, cos, sin, epsilon, columns, swapped, sign, WIDTH: tl.constexpr
    ):
        """One head of one token: normed, then turned by its place."""
        straight = tl.load(start + columns).to(tl.float32)
        crossed = tl.load(start + swapped).to(tl.float32)
        scale = tl.rsqrt(tl.sum(straight * straight, 0) / WIDTH + epsilon)
        straight = straight * scale * tl.load(norm + columns).to(tl.float32)
        crossed = crossed * scale * tl.load(norm + swapped).to(tl.float32)
        return straight * tl.load(cos + columns) + sign * crossed * tl.load(sin + columns)

    @triton.jit
    def _attend_kernel(  # type: ignore[no-untyped-def]
        mixed,
        keys,
        values,
        read,
        query_norm,
        key_norm,
        cos,
        sin,
        place,
        scale,
        epsilon,
        TOKENS: tl.constexpr,
        PLACES: tl.constexpr,
        STRIDE: tl.constexpr,
        HEADS: tl.constexpr,
        KV_HEADS: tl.constexpr,
        WIDTH: tl.constexpr,
    ):
        """One request and one head of keys, with all heads of queries that read it. The tokens' own keys stay in
        registers: what a program writes is not read again by it. ``TOKENS`` is 1, or 2 at the first place.
        """
        request, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
        columns = tl.arange(0, WIDTH)
        left = columns < WIDTH // 2
        swapped = tl.where(left, columns + WIDTH // 2, columns - WIDTH // 2)
        sign = tl.where(left, -1.0, 1.0)
        past = tl.arange(0, PLACES)
        cells = request * STRIDE + (past[:, None] * KV_HEADS + head) * WIDTH + columns[None, :]
        before = past[:, None] < place
        old_keys = tl.load(keys + cells, mask=before, other=0.0).to(tl.float32)
        old_values = tl.load(values + cells, mask=before, other=0.0).to(tl.float32)
        first_key = tl.zeros([WIDTH], tl.float32)
        first_value = tl.zeros([WIDTH], tl.float32)
        for token in tl.static_range(TOKENS):
            row = mixed + (request * TOKENS + token) * (HEADS + 2 * KV_HEADS) * WIDTH
            turn = (place + token) * WIDTH
            start = row + (HEADS + head) * WIDTH
            key = _turned_head(start, key_norm, cos + turn, sin + turn, epsilon, columns, swapped, sign, WIDTH)
            value = tl.load(start + KV_HEADS * WIDTH + columns).to(tl.float32)
            cell = request * STRIDE + ((place + token) * KV_HEADS + head) * WIDTH + columns
            tl.store(keys + cell, key.to(keys.dtype.element_ty))
            tl.store(values + cell, value.to(values.dtype.element_ty))
            key = key.to(keys.dtype.element_ty).to(tl.float32)  # as it will be read later
            for member in tl.static_range(HEADS // KV_HEADS):
                asking = head * (HEADS // KV_HEADS) + member
                query = _turned_head(
                    row + asking * WIDTH, query_norm, cos + turn, sin + turn, epsilon, columns, swapped, sign, WIDTH
                )
                scores = tl.sum(old_keys * query[None, :], 1) * scale
                scores = tl.where(past < place, scores, float("-inf"))
                own = tl.sum(query * key, 0) * scale
                first = tl.sum(query * first_key, 0) * scale if token == 1 else own
                highest = tl.maximum(tl.max(scores, 0), tl.maximum(own, first))
                shares = tl.exp(scores - highest)
                own_share = tl.exp(own - highest)
                total = tl.sum(shares, 0) + own_share
                result = tl.sum(shares[:, None] * old_values, 0) + own_share * value
                if token == 1:
                    first_share = tl.exp(first - highest)
                    total += first_share
                    result += first_share * first_value
                out = read + (request * TOKENS + token) * HEADS * WIDTH + asking * WIDTH + columns
                tl.store(out, (result / total).to(read.dtype.element_ty))
            first_key = key
            first_value = value

    @triton.jit
    def _sample_kernel(  # type: ignore[no-untyped-def]
        logits,
        noise,
        codes,
        noise_stride,
        WIDTH: tl.constexpr,
        BLOCK: tl.constexpr,
        COUNT: tl.constexpr,
        RANKS: tl.constexpr,
        TOP_P: tl.constexpr,
    ):
        """One row. A logit and its place are sorted as one number: the float's bits, as an integer in the order of the
        floats, and below them the place from the end, so that of equal logits the first one wins.
        """
        row = tl.program_id(0).to(tl.int64)
        columns = tl.arange(0, BLOCK)
        value = tl.load(logits + row * WIDTH + columns, mask=columns < WIDTH, other=float("-inf")).to(tl.float32)
        bits = value.to(tl.int32, bitcast=True)
        ordered = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits).to(tl.int64)
        best = tl.topk((ordered << 32) | (BLOCK - 1 - columns), RANKS)
        place = BLOCK - 1 - (best & 0xFFFFFFFF)
        bits = (best >> 32).to(tl.int32)
        value = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits).to(tl.float32, bitcast=True)
        rank = tl.arange(0, RANKS)
        inside = rank < COUNT
        shares = tl.where(inside, tl.exp(value - tl.max(value, 0)), 0.0)
        shares = shares / tl.sum(shares, 0)
        kept = inside & (tl.cumsum(shares, 0) - shares < TOP_P)
        scores = value + tl.load(noise + row * noise_stride + rank, mask=inside, other=0.0)
        chosen = tl.argmax(tl.where(kept, scores, float("-inf")), 0)
        tl.store(codes + row, tl.sum(tl.where(rank == chosen, place, 0), 0))
