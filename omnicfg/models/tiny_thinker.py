"""``builtin:tiny-thinker``: the decoder of tiny-omni's Thinker as a text model of its own.

It has the same weights under the names of transformers' ``Qwen3MoeForCausalLM``: what is to be known of a Thinker can
be tried out on it with any tool that knows text models.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from omnicfg.models import tiny_omni
from omnicfg.models._tokenizer import write_json, write_tokenizer
from omnicfg.models.tiny_omni import EXPERTS, VOCABULARY

__all__ = ["EXPERTS", "VERSION", "VOCABULARY", "config", "write"]

VERSION = 2


def write(directory: Path) -> None:
    """Writes the checkpoint: configuration, tokenizer, chat template, sampling defaults and weights."""
    write_json(directory / "config.json", config())
    write_json(directory / "generation_config.json", tiny_omni.generation_config())
    write_tokenizer(directory, VOCABULARY)
    weights = ((name, tiny_omni.tensor(name, shape)) for name, shape in tiny_omni.thinker_parameters())
    tiny_omni.save(directory / "model.safetensors", ((name.removeprefix("thinker."), made) for name, made in weights))


def config() -> dict[str, Any]:
    """The checkpoint's ``config.json``. With text alone all axes of M-RoPE are equal, so it is plain RoPE."""
    rope = {name: value for name, value in tiny_omni.text_config()["rope_parameters"].items() if "mrope" not in name}
    return {
        **tiny_omni.text_config(),
        "architectures": ["Qwen3MoeForCausalLM"],
        "model_type": "qwen3_moe",
        "rope_parameters": rope,
    }
