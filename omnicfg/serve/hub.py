"""What the Hugging Face hub knows of a model before vLLM downloads the rest of it."""

from __future__ import annotations

from pathlib import Path


def config_directory(model: str) -> Path | None:
    """Where the ``config.json`` of a model on the hub lies, downloaded if need be; ``None`` where it cannot be had."""
    try:
        from huggingface_hub import hf_hub_download

        return Path(hf_hub_download(model, "config.json")).parent
    except (ImportError, OSError, ValueError):  # not installed; no such model, no network, no right; no such name
        return None
