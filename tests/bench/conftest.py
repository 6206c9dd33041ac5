"""A model directory that is enough to be checked, and too little to be served."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

CONFIG = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "hidden_size": 64,
    "num_hidden_layers": 28,
    "vocab_size": 1000,
    "max_position_embeddings": 4096,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model directory without weights."""
    folder = tmp_path / "thinker"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    return folder
