"""Tiny random checkpoints of real Thinkers, and their rows against transformers: run as a program, one engine a run.

    python -m tests.engine.omni_thinkers FOLDER NAME [--engine-args JSON]

``NAME`` is a model of :data:`MODELS`. vLLM loads its own class of that architecture, without encoders
(``language_model_only``), extended by payload rows; transformers loads the decoder of the same checkpoint.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from omnicfg.engine.spec import PayloadRows
from omnicfg.engine.verify import Engine, compare, scenarios
from omnicfg.models._tokenizer import write_tokenizer

SCENARIOS = ("hit", "partial hit", "crowd", "same step")
TEXT = {
    "vocab_size": 1024,
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 4096,
}
MROPE = {"rope_type": "default", "rope_theta": 1_000_000.0, "mrope_section": [8, 12, 12]}
ENGINE = {"dtype": "float32", "enforce_eager": True, "max_model_len": 1536, "max_num_batched_tokens": 512}

Truth = Callable[[tuple[int, ...]], torch.Tensor]
Made = tuple[PayloadRows, Truth]


def qwen2_5_omni(folder: Path) -> Made:
    """The Talker reads the state behind the final norm: ``Qwen2_5OmniForConditionalGeneration.generate``."""
    from transformers import Qwen2_5OmniConfig, Qwen2_5OmniThinkerForConditionalGeneration

    audio = {"d_model": 64, "encoder_layers": 1, "encoder_attention_heads": 2, "encoder_ffn_dim": 64, "output_dim": 256}
    vision = {"depth": 1, "hidden_size": 64, "num_heads": 2, "intermediate_size": 64, "out_hidden_size": 256}
    text = {**TEXT, "rope_parameters": MROPE, "rope_scaling": MROPE}
    config = Qwen2_5OmniConfig(
        thinker_config={"text_config": text, "audio_config": audio, "vision_config": vision},
        architectures=["Qwen2_5OmniModel"],
    )
    thinker = _random(Qwen2_5OmniThinkerForConditionalGeneration(config.thinker_config))
    _save(folder, config.to_dict(), {f"thinker.{name}": value for name, value in thinker.state_dict().items()})
    return PayloadRows((), final=True), _truth(thinker.model, [-1])


def qwen3_omni(folder: Path) -> Made:
    """The Talker reads layer ``accept_hidden_layer``: ``Qwen3OmniMoeForConditionalGeneration.generate``."""
    from transformers import Qwen3OmniMoeConfig, Qwen3OmniMoeThinkerForConditionalGeneration

    audio = {
        "d_model": 64,
        "encoder_layers": 1,
        "encoder_attention_heads": 2,
        "encoder_ffn_dim": 64,
        "output_dim": 256,
        "downsample_hidden_size": 32,
    }
    vision = {
        "depth": 2,
        "hidden_size": 64,
        "num_heads": 2,
        "intermediate_size": 64,
        "out_hidden_size": 256,
        "deepstack_visual_indexes": [0, 1],
        "image_size": 448,
        "apply_vit_abs_pos_embed": True,
    }
    text = {
        **TEXT,
        "rope_parameters": MROPE,
        "rope_scaling": MROPE,
        "head_dim": 64,
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 128,
        "norm_topk_prob": True,
        "tie_word_embeddings": False,
    }
    config = Qwen3OmniMoeConfig(
        thinker_config={"text_config": text, "audio_config": audio, "vision_config": vision},
        talker_config={"accept_hidden_layer": 2},
        architectures=["Qwen3OmniMoeForConditionalGeneration"],
    )
    thinker = _random(Qwen3OmniMoeThinkerForConditionalGeneration(config.thinker_config))
    written = config.to_dict()
    _save(folder, written, _thinker_tensors(thinker))
    record = {"layers": [24], "layers_from": "talker_config.accept_hidden_layer"}
    return PayloadRows.from_record(record, written), _truth(thinker.model, [2])


def qwen3(folder: Path) -> Made:
    """A dense text model, the decoder of MiniCPM-o 4.5, with a tokenizer: it can be served."""
    from transformers import Qwen3ForCausalLM

    config = _qwen3_config()
    decoder = _random(Qwen3ForCausalLM(config))
    _save(folder, {**config.to_dict(), "architectures": ["Qwen3ForCausalLM"]}, decoder.state_dict())
    write_tokenizer(folder, config.vocab_size)
    return PayloadRows((), final=True), _truth(decoder.model, [-1])


def minicpmo_4_5(folder: Path) -> Made:
    """The TTS reads the last hidden state of Qwen3's decoder. Its configuration class comes with its checkpoint."""
    from transformers import Qwen3ForCausalLM

    config = _qwen3_config()
    decoder = _random(Qwen3ForCausalLM(config))
    written = {
        **config.to_dict(),
        "architectures": ["MiniCPMO"],
        "model_type": "minicpmo",
        "version": "4.5",
        "auto_map": {"AutoConfig": "configuration_minicpmo.MiniCPMOConfig"},
        **_MINICPMO,
    }
    _save(folder, written, {f"llm.{name}": value for name, value in decoder.state_dict().items()})
    (folder / "configuration_minicpmo.py").write_text(_MINICPMO_CONFIG)
    return PayloadRows((), final=True), _truth(decoder.model, [-1])


def _qwen3_config() -> Any:
    from transformers import Qwen3Config

    return Qwen3Config(**TEXT, head_dim=64, rope_parameters={"rope_type": "default", "rope_theta": 1_000_000.0})


MODELS: dict[str, Callable[[Path], Made]] = {
    "qwen2_5_omni": qwen2_5_omni,
    "qwen3_omni": qwen3_omni,
    "minicpmo_4_5": minicpmo_4_5,
    "qwen3": qwen3,
}

_MINICPMO = {
    "query_num": 4,
    "image_size": 448,
    "batch_vision_input": True,
    "slice_mode": False,
    "use_image_id": True,
    "drop_vision_last_layer": False,
    "audio_pool_step": 5,
    "audio_chunk_length": 1.0,
    "vision_config": {
        "model_type": "siglip_vision_model",
        "hidden_size": 64,
        "intermediate_size": 64,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "image_size": 448,
        "patch_size": 14,
    },
    "audio_config": {
        "model_type": "whisper",
        "d_model": 64,
        "encoder_layers": 1,
        "encoder_attention_heads": 2,
        "encoder_ffn_dim": 64,
    },
}
_MINICPMO_CONFIG = '''\
"""A stand-in for the configuration class that comes with MiniCPM-o's checkpoints: their fields over Qwen3's."""

from transformers import Qwen3Config, SiglipVisionConfig, WhisperConfig


class MiniCPMOConfig(Qwen3Config):
    model_type = "minicpmo"

    def __init__(self, vision_config=None, audio_config=None, **others):
        self.vision_config = SiglipVisionConfig(**(vision_config or {}))
        self.audio_config = WhisperConfig(**(audio_config or {}))
        super().__init__(**others)
'''


def _random(model: Any) -> Any:
    """Weights that keep activations near one, as in a trained model; the same every time."""
    generator = torch.Generator().manual_seed(20260401)
    with torch.no_grad():
        for name, value in model.named_parameters():
            if value.dim() == 1:
                value.fill_(0.0 if name.endswith("bias") else 1.0)
            else:
                scale = 1.0 if "embed_tokens" in name else value[0].numel() ** -0.5
                value.copy_(torch.randn(value.shape, generator=generator) * scale)
    return model.float().eval()


def _thinker_tensors(thinker: Any) -> dict[str, torch.Tensor]:
    """A Thinker's weights under the names of published checkpoints, where every expert has tensors of its own."""
    tensors: dict[str, torch.Tensor] = {}
    for name, value in thinker.state_dict().items():
        prefix, fused, _ = name.rpartition("experts.gate_up_proj")
        if fused:
            for expert, both in enumerate(value):
                gate, up = both.chunk(2)
                tensors[f"thinker.{prefix}experts.{expert}.gate_proj.weight"] = gate
                tensors[f"thinker.{prefix}experts.{expert}.up_proj.weight"] = up
            continue
        prefix, fused, _ = name.rpartition("experts.down_proj")
        if fused:
            for expert, down in enumerate(value):
                tensors[f"thinker.{prefix}experts.{expert}.down_proj.weight"] = down
            continue
        tensors[f"thinker.{name}"] = value
    return tensors


def _save(folder: Path, config: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**config, "dtype": "float32"}))
    save_file({name: value.clone().contiguous() for name, value in tensors.items()}, folder / "model.safetensors")


def _truth(decoder: Any, layers: list[int]) -> Truth:
    seen: dict[tuple[int, ...], torch.Tensor] = {}

    def rows(tokens: tuple[int, ...]) -> torch.Tensor:
        if tokens not in seen:
            with torch.inference_mode():
                output = decoder(input_ids=torch.tensor([tokens]), output_hidden_states=True)
            seen[tokens] = torch.stack([output.hidden_states[layer][0] for layer in layers], dim=1)
        return seen[tokens]

    return rows


def main() -> int:
    """Print one verdict a scenario, as JSON."""
    parser = argparse.ArgumentParser(description="Compare the rows of a real Thinker's class with transformers.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("name", choices=sorted(MODELS))
    parser.add_argument("--engine-args", type=json.loads, default={})
    parser.add_argument("--make-only", action="store_true", help="write the checkpoint, start nothing")
    options = parser.parse_args()
    torch.set_num_threads(1)
    payload, truth = MODELS[options.name](options.folder)
    waves = scenarios(TEXT["vocab_size"])
    if options.make_only:
        return 0
    encoders = {} if options.name == "qwen3" else {"language_model_only": True}
    only_text = {**encoders, "trust_remote_code": options.name == "minicpmo_4_5"}
    with Engine(options.folder, payload, {**ENGINE, **only_text, **options.engine_args}) as engine:
        outcomes = [outcome for name in SCENARIOS for outcome in engine.run(name, waves[name])]
    verdicts = [asdict(verdict) for verdict in compare(outcomes, truth)]
    (options.folder / "verdicts.json").write_text(json.dumps(verdicts, indent=1))
    print(json.dumps(verdicts, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
