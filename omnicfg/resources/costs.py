"""What a setting costs, as far as it is known: measured (capability records), or computed from a ``config.json``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from omnicfg.evidence import host_memory_text, load_texts
from omnicfg.plan import Plan, StagePlan
from omnicfg.tree import plain

# Engine args that decide how many bytes a token takes in the KV cache.
TOKEN_SIZE: Final = frozenset({"dtype", "kv_cache_dtype", "tensor_parallel_size"})


def measured(entry: Mapping[str, Any]) -> str | None:
    """The costs that a record's entry has measured, in one line; ``None`` where it has none."""
    return "; ".join(text for text in (host_memory_text(entry), *load_texts(entry)) if text) or None


def token_size(plan: Plan, stage: StagePlan, model: Path) -> str | None:
    """What one token takes in a stage's KV cache, and the payload rows beside it, from the model directory.

    ``None`` where the directory does not say. Raises :class:`~omnicfg.errors.ResolveError` where it is unreadable.
    """
    from omnicfg.engine.memory import estimate
    from omnicfg.engine.spec import EngineSpecError
    from omnicfg.payload import rows_of
    from omnicfg.resources.checkpoint import stage_config

    config = stage_config(model, stage)
    if config is None or stage.worker_type != "ar":
        return None
    is_first = stage.stage_id == plan.stages[0].stage_id
    try:
        found = estimate(config, plain(stage.engine_args), rows_of(plan, config) if is_first else None)
    except EngineSpecError:
        return None
    text = f"KV cache {_kib(found.kv_bytes)} a token and rank"
    if found.payload_bytes:
        share = f"{found.payload_share:.1%} fewer tokens"
        text += f"; payload rows on the bundled engine {_kib(found.payload_bytes)} more ({share})"
    return text


def _kib(size: int) -> str:
    return f"{size / 1024:.1f} KiB".replace(".0 ", " ")
