"""What a plan's KV caches hold, one sentence a stage."""

from __future__ import annotations

from collections.abc import Iterable

from omnicfg.resources.estimate import NoEstimate, StageEstimate
from omnicfg.resources.sizes import gib


def estimate_lines(found: Iterable[StageEstimate | NoEstimate]) -> list[str]:
    """``stage 0 (thinker): a token takes 98,304 B of keys and values, …, which holds 707,744 tokens``."""
    return [f"stage {one.stage_id} ({one.model_stage}): {_told(one)}" for one in found]


def _told(one: StageEstimate | NoEstimate) -> str:
    if isinstance(one, NoEstimate):
        return f"no estimate of its KV cache: {one.why}"
    rows = one.cache.payload_bytes
    parts = [f"a token takes {one.cache.kv_bytes:,} B of keys and values"]
    parts[0] += f" and, on the bundled engine, {rows:,} B of payload rows" if rows else ""
    if one.kv_memory is None:
        parts.append(f"how many fit is not known: {one.origin}")
    elif one.kv_memory <= 0:
        parts.append(f"{one.origin} leaves nothing for them")
    else:
        parts.append(f"{one.origin} is {gib(one.kv_memory)}, which holds {_count(one)}")
    return "; ".join(parts)


def _count(one: StageEstimate) -> str:
    text = f"{one.tokens:,} tokens"
    if one.cache.payload_bytes:
        text += f", {one.tokens_without_rows:,} without rows"
    if one.longest is not None and one.tokens is not None and one.tokens < one.longest:
        text += f": less than one request of max_model_len {one.longest:,}"
    return text
