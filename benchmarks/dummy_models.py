"""Model directories without weights, at the dimensions of real decoders, for measuring where no checkpoint can be had.

    python -m benchmarks.dummy_models DIR [--site SITE] [--small]

writes ``DIR/qwen3-omni`` (the Thinker of Qwen3-Omni-30B-A3B), ``DIR/qwen3-omni-speech`` (all its stages:
https://huggingface.co/Qwen/Qwen3-Omni-30B-A3B-Instruct, ``config.json``) and ``DIR/minicpm-o-4-5`` (the 8B decoder of
MiniCPM-o 4.5, Qwen3-8B's dimensions: https://huggingface.co/Qwen/Qwen3-8B, ``config.json``). Serve them with
``--set stages.N.load_format=dummy`` for each of their stages. ``--site`` writes a folder that stands in for an
installed omnicfg: with it and the checkout on ``PYTHONPATH``, vLLM finds the engine's plugin. ``--small`` writes models
of the same architectures with few small layers, for trying something out on a CPU.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.engine.support import write_entry_point
from benchmarks.engine.thinker import MINICPM_O, THINKER, write_model

_TALKER = {
    "model_type": "qwen3_omni_moe_talker_text",
    "vocab_size": 3072,
    "hidden_size": 1024,
    "intermediate_size": 2048,
    "num_hidden_layers": 20,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "num_experts": 128,
    "num_experts_per_tok": 6,
    "moe_intermediate_size": 384,
    "shared_expert_intermediate_size": 768,
    "norm_topk_prob": True,
    "max_position_embeddings": 65536,
    "rms_norm_eps": 1e-6,
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 1_000_000.0,
        "mrope_section": [24, 20, 20],
        "mrope_interleaved": True,
    },
}
_PREDICTOR = {
    "model_type": "qwen3_omni_moe_talker_code_predictor",
    "vocab_size": 2048,
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 5,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "rms_norm_eps": 1e-6,
    "num_code_groups": 16,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1_000_000.0},
}
_CODE2WAV = {
    "model_type": "qwen3_omni_moe_code2wav",
    "codebook_size": 2048,
    "num_quantizers": 16,
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 8,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "sliding_window": 72,
    "decoder_dim": 1536,
    "upsample_rates": [8, 5, 4, 3],
    "upsampling_ratios": [2, 2],
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
}
_WORDS = {"im_start": 151644, "im_end": 151645, "system": 8948, "user": 872, "assistant": 77091}
QWEN3_OMNI = {
    "architectures": ["Qwen3OmniMoeForConditionalGeneration"],
    "model_type": "qwen3_omni_moe",
    "dtype": "bfloat16",
    "enable_audio_output": True,
    **{f"{name}_token_id": token for name, token in _WORDS.items()},
    "tts_pad_token_id": 151671,
    "tts_bos_token_id": 151672,
    "tts_eos_token_id": 151673,
    "thinker_config": {
        "model_type": "qwen3_omni_moe_thinker",
        "text_config": {
            **{name: value for name, value in THINKER.items() if name not in {"architectures", "rope_theta"}},
            "model_type": "qwen3_omni_moe_text",
            "rope_parameters": _TALKER["rope_parameters"],
        },
    },
    "talker_config": {
        "model_type": "qwen3_omni_moe_talker",
        "accept_hidden_layer": 24,
        "thinker_hidden_size": 2048,
        "num_code_groups": 16,
        "spatial_merge_size": 2,
        "position_id_per_seconds": 13,
        "codec_pad_id": 2148,
        "codec_bos_id": 2149,
        "codec_eos_token_id": 2150,
        "codec_nothink_id": 2155,
        "codec_think_bos_id": 2156,
        "codec_think_eos_id": 2157,
        "audio_token_id": 151675,
        "image_token_id": 151655,
        "video_token_id": 151656,
        "speaker_id": {"chelsie": 2301, "ethan": 2302, "aiden": 2303},
        "text_config": _TALKER,
        "code_predictor_config": _PREDICTOR,
    },
    "code2wav_config": _CODE2WAV,
}
_CHAT = (
    "{%- for message in messages -%}w151644 {{ roles[message.role] }} w198 {{ message.content }} w151645 w198{{ ' ' }}"
    "{%- endfor -%}w151644 w77091 w198"
)
MODELS: dict[str, dict[str, Any]] = {"qwen3-omni": THINKER, "qwen3-omni-speech": QWEN3_OMNI, "minicpm-o-4-5": MINICPM_O}


_SMALL: dict[str, Any] = {
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32,
    "decoder_dim": 32,
    "thinker_hidden_size": 64,
    "accept_hidden_layer": 1,
    "mrope_section": [8, 4, 4],
}
_SMALL_THINKER = 25  # layers: its configuration does not say from which one the rows come, so it is the record's 24th


def main() -> int:
    """Write them, where they are not there yet."""
    parser = argparse.ArgumentParser(description="Write model directories without weights.")
    parser.add_argument("dir", type=Path)
    parser.add_argument("--site", type=Path, help="a folder for PYTHONPATH that has the engine's entry point")
    parser.add_argument("--small", action="store_true", help="few small layers")
    options = parser.parse_args()
    for directory in write_models(options.dir, small=options.small):
        print(directory)
    if options.site:
        print(write_entry_point(options.site))
    return 0


def write_models(folder: Path, *, small: bool = False) -> list[Path]:
    """All of them, where they are not there yet; their directories."""
    directories = []
    for name, model in MODELS.items():
        config = model
        if small:
            config = smaller(model) | ({"num_hidden_layers": _SMALL_THINKER} if model is THINKER else {})
        directory = write_model(folder / name, config)
        if "talker_config" in config and not (directory / "chat_template.jinja").exists():
            write_chat(directory)
        directories.append(directory)
    return directories


def smaller(config: Any) -> Any:
    """The same architecture with few small layers."""
    if not isinstance(config, dict):
        return config
    return {name: _SMALL.get(name, smaller(value)) for name, value in config.items()}


def write_chat(directory: Path) -> None:
    """A chat template, and a tokenizer that takes ``w12 w7`` for the tokens 12 and 7, so that lengths are exact."""
    from tokenizers import Tokenizer, pre_tokenizers

    path = directory / "tokenizer.json"
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(path))
    roles = {role: f"w{_WORDS[role]}" for role in ("system", "user", "assistant")}
    template = f"{{%- set roles = {json.dumps(roles)} -%}}\n{_CHAT}"
    (directory / "chat_template.jinja").write_text(template, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
