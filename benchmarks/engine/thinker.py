"""The dimensions of the Thinkers that are measured, and model directories without weights."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from omnicfg.engine.spec import PayloadRows
from omnicfg.models import materialize, tiny_thinker

LAYER_24 = PayloadRows((24,), final=False)
VOCABULARY = 152_064
THINKER = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 65536,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1_000_000.0,
    "tie_word_embeddings": False,
    "dtype": "bfloat16",
    "hidden_act": "silu",
    "bos_token_id": 151643,
    "eos_token_id": 151645,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "norm_topk_prob": True,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
}
_MIXTURE = ("moe_intermediate_size", "norm_topk_prob", "decoder_sparse_step", "mlp_only_layers")
MINICPM_O = {
    **{name: value for name, value in THINKER.items() if "expert" not in name and name not in _MIXTURE},
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 36,
    "num_key_value_heads": 8,
}
MODELS: Final[dict[str, tuple[dict[str, Any], PayloadRows]]] = {
    "qwen3-omni": (THINKER, LAYER_24),
    "minicpm-o-4-5": (MINICPM_O, PayloadRows((), final=True)),
}
"""``config.json`` and rows, by the names of their published tables: Qwen3-Omni-30B-A3B's Thinker, and the 8B decoder of
MiniCPM-o 4.5.
"""


@dataclass(frozen=True)
class Thinker:
    """The model that servers have: one of :data:`MODELS`, or on the CPU the ``tiny`` default."""

    tiny: bool
    model: str = "qwen3-omni"

    @property
    def config(self) -> dict[str, Any]:
        """Its ``config.json``."""
        return tiny_thinker.config() if self.tiny else MODELS[self.model][0]

    @property
    def payload(self) -> PayloadRows:
        """The rows that are kept of it."""
        return PayloadRows((2,), final=False) if self.tiny else MODELS[self.model][1]

    @property
    def vocabulary(self) -> int:
        """How many tokens it knows."""
        return tiny_thinker.VOCABULARY if self.tiny else VOCABULARY

    def directory(self, folder: Path, name: str = "thinker") -> Path:
        """Its directory under ``folder``, made where it is not there: without weights, called ``name``."""
        return materialize("builtin:tiny-thinker", folder) if self.tiny else write_model(folder / name, self.config)


def write_model(path: Path, config: dict[str, Any]) -> Path:
    """A checkpoint without weights: configuration, and a tokenizer that has a word for every id."""
    if (path / "config.json").exists():
        return path
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    words = {f"w{index}": index for index in range(VOCABULARY)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="w0"))
    path.mkdir(parents=True)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="w151645").save_pretrained(path)
    (path / "config.json").write_text(json.dumps(config))
    return path
