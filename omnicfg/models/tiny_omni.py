"""``builtin:tiny-omni``: an omni-modal model that answers in text and speech, small enough for two CPU cores.

The architecture is Qwen3-Omni's (transformers' ``Qwen3OmniMoeForConditionalGeneration``: a Thinker with an audio and a
vision encoder, a Talker with its code predictor, Code2Wav), its parts at the real proportions of sampling rates and at
a few million parameters. The weights are random: what it says means nothing, how it is computed is real.

One thing is not left to chance: the Talker ends its speech soon after its text has ended. Padding, which it reads from
then on, carries a mark in one channel, and the head of the end code looks at that channel.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnicfg.models._tokenizer import (
    AUDIO,
    AUDIO_END,
    AUDIO_START,
    END_OF_TEXT,
    IMAGE,
    ROLES,
    SPECIAL_TOKENS,
    SPEECH_END,
    SPEECH_PAD,
    SPEECH_START,
    TURN_END,
    TURN_START,
    VIDEO,
    VISION_END,
    VISION_START,
    special_token_id,
    write_json,
    write_tokenizer,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

VERSION = 3

SEED = 20260401
CONTEXT = 8192

VOCABULARY = 1024
HIDDEN = 256
LAYERS = 4
HEADS = 8
KV_HEADS = 2
HEAD_DIM = 64
EXPERTS = 8
EXPERTS_PER_TOKEN = 2
EXPERT_WIDTH = 128
ACCEPTED_LAYER = 2
"""The Thinker's layer whose input the Talker reads at the positions of sounds and images."""

ENCODER_WIDTH = 32
ENCODER_HEADS = 2
CONVOLUTIONS = 8
MEL_BINS = 128
VISION_LAYERS = 2
DEEPSTACK = (1,)
"""Layers of the vision encoder whose output goes into the Thinker's first layers, below the accepted one."""
PATCH = 16
MERGED = 2
"""Patches along each side of the square that becomes one token."""
VISION_POSITIONS = 64
FRAMES_MERGED = 2
POSITIONS_PER_SECOND = 13
MOST_PIXELS = 512 * 512
SAMPLE_RATE = 16_000
MOST_SECONDS = 30
HOP = 160

TALKER_HIDDEN = 128
TALKER_LAYERS = 2
TALKER_HEADS = 4
TALKER_KV_HEADS = 2
TALKER_HEAD_DIM = 32
TALKER_EXPERTS = 4
TALKER_EXPERT_WIDTH = 64
TALKER_WIDTH = 128
PREDICTOR_LAYERS = 2
PREDICTOR_WIDTH = 256
CODEBOOK = 256
CODEBOOKS = 4
RESERVED_CODES = 1024
"""What transformers keeps the Talker from saying, the end code excepted: the end of its vocabulary."""

WAVE_HIDDEN = 64
WAVE_LAYERS = 2
WAVE_HEADS = 4
WAVE_WIDTH = 128
WAVE_WINDOW = 16
WAVE_CHANNELS = 64
UPSAMPLE_RATES = (8, 5, 4, 3)
UPSAMPLING_RATIOS = (2, 2)

SPEAKERS = ("chelsie", "ethan", "aiden")
RAW_BYTES = 256
"""The first entries of the vocabulary are single bytes, the others pieces of words."""

_MARK = 8.0
_END_OF_SPEECH_GAIN = 1.2
_LOUDNESS = 0.01
_CODES = (
    "codec_pad_id",
    "codec_bos_id",
    "codec_eos_token_id",
    "codec_nothink_id",
    "codec_think_bos_id",
    "codec_think_eos_id",
)

Shape = tuple[int, ...]


def write(directory: Path) -> None:
    """Writes the checkpoint: configuration, processors, tokenizer, chat template, sampling defaults and weights."""
    write_json(directory / "config.json", config())
    write_json(directory / "generation_config.json", generation_config())
    write_json(directory / "preprocessor_config.json", processors())
    write_json(directory / "video_preprocessor_config.json", _video_processor())
    write_tokenizer(directory, VOCABULARY)
    save(directory / "model.safetensors", ((name, tensor(name, shape)) for name, shape in parameters()))


def config() -> dict[str, Any]:
    """The checkpoint's ``config.json``, in the form that transformers 5 writes."""
    system, user, assistant = (token(role) for role in ROLES)
    return {
        "architectures": ["Qwen3OmniMoeForConditionalGeneration"],
        "model_type": "qwen3_omni_moe",
        "dtype": "float32",
        "enable_audio_output": True,
        "im_start_token_id": token(TURN_START),
        "im_end_token_id": token(TURN_END),
        "tts_pad_token_id": token(SPEECH_PAD),
        "tts_bos_token_id": token(SPEECH_START),
        "tts_eos_token_id": token(SPEECH_END),
        "system_token_id": system,
        "user_token_id": user,
        "assistant_token_id": assistant,
        "thinker_config": _thinker_config(),
        "talker_config": _talker_config(),
        "code2wav_config": _code2wav_config(),
    }


def text_config() -> dict[str, Any]:
    """The Thinker's decoder, as ``thinker_config.text_config`` has it."""
    return {
        "model_type": "qwen3_omni_moe_text",
        "dtype": "float32",
        "vocab_size": VOCABULARY,
        "hidden_size": HIDDEN,
        "intermediate_size": EXPERTS_PER_TOKEN * EXPERT_WIDTH,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "num_experts": EXPERTS,
        "num_experts_per_tok": EXPERTS_PER_TOKEN,
        "moe_intermediate_size": EXPERT_WIDTH,
        "norm_topk_prob": True,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "hidden_act": "silu",
        "attention_bias": False,
        "rms_norm_eps": 1e-6,
        "rope_parameters": _rope((12, 10, 10)),
        "max_position_embeddings": CONTEXT,
        "tie_word_embeddings": False,
        "eos_token_id": token(TURN_END),
        "pad_token_id": token(END_OF_TEXT),
    }


def generation_config() -> dict[str, Any]:
    """Greedy, until a turn or the text ends."""
    return {
        "eos_token_id": [token(TURN_END), token(END_OF_TEXT)],
        "pad_token_id": token(END_OF_TEXT),
        "do_sample": False,
    }


def processors() -> dict[str, Any]:
    """The checkpoint's ``preprocessor_config.json``: how pictures become patches and sounds become mel frames."""
    return {
        "processor_class": "Qwen3OmniMoeProcessor",
        "image_processor_type": "Qwen2VLImageProcessor",
        **_patches(),
        "feature_extractor_type": "WhisperFeatureExtractor",
        "feature_size": MEL_BINS,
        "sampling_rate": SAMPLE_RATE,
        "hop_length": HOP,
        "n_fft": 400,
        "chunk_length": MOST_SECONDS,
        "n_samples": MOST_SECONDS * SAMPLE_RATE,
        "nb_max_frames": MOST_SECONDS * SAMPLE_RATE // HOP,
        "padding_side": "right",
        "padding_value": 0.0,
        "return_attention_mask": True,
    }


def _video_processor() -> dict[str, Any]:
    return {"video_processor_type": "Qwen2VLVideoProcessor", **_patches()}


def _patches() -> dict[str, Any]:
    return {
        "patch_size": PATCH,
        "merge_size": MERGED,
        "temporal_patch_size": FRAMES_MERGED,
        "size": {"shortest_edge": (PATCH * MERGED) ** 2, "longest_edge": MOST_PIXELS},
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
    }


def token(name: str) -> int:
    """The id of a special token or a role."""
    return special_token_id(name, VOCABULARY)


def save(path: Path, weights: Iterator[tuple[str, NDArray[Any]]]) -> None:
    """Writes tensors as one safetensors file."""
    from safetensors.numpy import save_file

    save_file(dict(weights), path, metadata={"format": "pt"})


def _thinker_config() -> dict[str, Any]:
    return {
        "model_type": "qwen3_omni_moe_thinker",
        "audio_token_id": token(AUDIO),
        "image_token_id": token(IMAGE),
        "video_token_id": token(VIDEO),
        "audio_start_token_id": token(AUDIO_START),
        "audio_end_token_id": token(AUDIO_END),
        "vision_start_token_id": token(VISION_START),
        "vision_end_token_id": token(VISION_END),
        "user_token_id": token(ROLES[1]),
        "position_id_per_seconds": POSITIONS_PER_SECOND,
        "text_config": text_config(),
        "audio_config": {
            "model_type": "qwen3_omni_moe_audio_encoder",
            "num_mel_bins": MEL_BINS,
            "encoder_layers": 1,
            "encoder_attention_heads": ENCODER_HEADS,
            "encoder_ffn_dim": 2 * ENCODER_WIDTH,
            "d_model": ENCODER_WIDTH,
            "output_dim": HIDDEN,
            "downsample_hidden_size": CONVOLUTIONS,
        },
        "vision_config": {
            "model_type": "qwen3_omni_moe_vision_encoder",
            "depth": VISION_LAYERS,
            "hidden_size": ENCODER_WIDTH,
            "num_heads": ENCODER_HEADS,
            "intermediate_size": 2 * ENCODER_WIDTH,
            "out_hidden_size": HIDDEN,
            "patch_size": PATCH,
            "spatial_merge_size": MERGED,
            "temporal_patch_size": FRAMES_MERGED,
            "num_position_embeddings": VISION_POSITIONS,
            "image_size": PATCH * math.isqrt(VISION_POSITIONS),
            "apply_vit_abs_pos_embed": True,
            "deepstack_visual_indexes": list(DEEPSTACK),
        },
    }


def _talker_config() -> dict[str, Any]:
    first = CODEBOOK + RESERVED_CODES - len(SPEAKERS) - len(_CODES)
    codes = {name: first + place for place, name in enumerate(_CODES)}
    speakers = {name: first + len(_CODES) + place for place, name in enumerate(SPEAKERS)}
    decoder = {
        "hidden_size": TALKER_HIDDEN,
        "num_attention_heads": TALKER_HEADS,
        "num_key_value_heads": TALKER_KV_HEADS,
        "head_dim": TALKER_HEAD_DIM,
        "rms_norm_eps": 1e-6,
    }
    return {
        "model_type": "qwen3_omni_moe_talker",
        "accept_hidden_layer": ACCEPTED_LAYER,
        "thinker_hidden_size": HIDDEN,
        "num_code_groups": CODEBOOKS,
        "spatial_merge_size": MERGED,
        "position_id_per_seconds": POSITIONS_PER_SECOND,
        "audio_token_id": token(AUDIO),
        "image_token_id": token(IMAGE),
        "video_token_id": token(VIDEO),
        "audio_start_token_id": token(AUDIO_START),
        "vision_start_token_id": token(VISION_START),
        **codes,
        "speaker_id": speakers,
        "text_config": {
            **decoder,
            "model_type": "qwen3_omni_moe_talker_text",
            "vocab_size": CODEBOOK + RESERVED_CODES,
            "intermediate_size": TALKER_WIDTH,
            "num_hidden_layers": TALKER_LAYERS,
            "num_experts": TALKER_EXPERTS,
            "num_experts_per_tok": EXPERTS_PER_TOKEN,
            "moe_intermediate_size": TALKER_EXPERT_WIDTH,
            "shared_expert_intermediate_size": TALKER_EXPERT_WIDTH,
            "norm_topk_prob": True,
            "max_position_embeddings": CONTEXT,
            "rope_parameters": _rope((6, 5, 5)),
        },
        "code_predictor_config": {
            **decoder,
            "model_type": "qwen3_omni_moe_talker_code_predictor",
            "vocab_size": CODEBOOK,
            "intermediate_size": PREDICTOR_WIDTH,
            "num_hidden_layers": PREDICTOR_LAYERS,
            "num_code_groups": CODEBOOKS,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0},
        },
    }


def _code2wav_config() -> dict[str, Any]:
    return {
        "model_type": "qwen3_omni_moe_code2wav",
        "codebook_size": CODEBOOK,
        "num_quantizers": CODEBOOKS,
        "hidden_size": WAVE_HIDDEN,
        "intermediate_size": WAVE_WIDTH,
        "num_hidden_layers": WAVE_LAYERS,
        "num_attention_heads": WAVE_HEADS,
        "num_key_value_heads": WAVE_HEADS,
        "sliding_window": WAVE_WINDOW,
        "decoder_dim": WAVE_CHANNELS,
        "upsample_rates": list(UPSAMPLE_RATES),
        "upsampling_ratios": list(UPSAMPLING_RATIOS),
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    }


def _rope(sections: Shape) -> dict[str, Any]:
    return {
        "rope_type": "default",
        "rope_theta": 1000000.0,
        "mrope_section": list(sections),
        "mrope_interleaved": True,
    }


# ---------------------------------------------------------------------------------------------------------- parameters


def parameters() -> Iterator[tuple[str, Shape]]:
    """Name and shape of every tensor, as published checkpoints have them; matrices are (outputs, inputs)."""
    yield from thinker_parameters()
    yield from _audio_parameters()
    yield from _vision_parameters()
    yield from _talker_parameters()
    yield from _predictor_parameters()
    yield from _code2wav_parameters()


def thinker_parameters() -> Iterator[tuple[str, Shape]]:
    """The Thinker's decoder."""
    yield "thinker.model.embed_tokens.weight", (VOCABULARY, HIDDEN)
    for layer in range(LAYERS):
        prefix = f"thinker.model.layers.{layer}"
        yield from _norms(prefix, HIDDEN)
        yield from _attention(f"{prefix}.self_attn", HIDDEN, HEADS, KV_HEADS, HEAD_DIM)
        yield from _experts(f"{prefix}.mlp", HIDDEN, EXPERTS, EXPERT_WIDTH)
    yield "thinker.model.norm.weight", (HIDDEN,)
    yield "thinker.lm_head.weight", (VOCABULARY, HIDDEN)


def _audio_parameters() -> Iterator[tuple[str, Shape]]:
    tower, width = "thinker.audio_tower", ENCODER_WIDTH
    for number, inputs in ((1, 1), (2, CONVOLUTIONS), (3, CONVOLUTIONS)):
        yield from _with_bias(f"{tower}.conv2d{number}", (CONVOLUTIONS, inputs, 3, 3))
    yield f"{tower}.conv_out.weight", (width, CONVOLUTIONS * MEL_BINS // 8)
    layer = f"{tower}.layers.0"
    for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
        yield from _with_bias(f"{layer}.self_attn.{part}", (width, width))
    yield from _with_bias(f"{layer}.self_attn_layer_norm", (width,))
    yield from _with_bias(f"{layer}.fc1", (2 * width, width))
    yield from _with_bias(f"{layer}.fc2", (width, 2 * width))
    yield from _with_bias(f"{layer}.final_layer_norm", (width,))
    yield from _with_bias(f"{tower}.ln_post", (width,))
    yield from _with_bias(f"{tower}.proj1", (width, width))
    yield from _with_bias(f"{tower}.proj2", (HIDDEN, width))


def _vision_parameters() -> Iterator[tuple[str, Shape]]:
    tower, width, merged = "thinker.visual", ENCODER_WIDTH, 4 * ENCODER_WIDTH
    yield from _with_bias(f"{tower}.patch_embed.proj", (width, 3, 2, PATCH, PATCH))
    yield f"{tower}.pos_embed.weight", (VISION_POSITIONS, width)
    for number in range(VISION_LAYERS):
        block = f"{tower}.blocks.{number}"
        yield from _with_bias(f"{block}.norm1", (width,))
        yield from _with_bias(f"{block}.norm2", (width,))
        yield from _with_bias(f"{block}.attn.qkv", (3 * width, width))
        yield from _with_bias(f"{block}.attn.proj", (width, width))
        yield from _with_bias(f"{block}.mlp.linear_fc1", (2 * width, width))
        yield from _with_bias(f"{block}.mlp.linear_fc2", (width, 2 * width))
    for merger, normed in (("merger", width), *((f"merger_list.{number}", merged) for number in range(len(DEEPSTACK)))):
        yield from _with_bias(f"{tower}.{merger}.ln_q", (normed,))
        yield from _with_bias(f"{tower}.{merger}.mlp.0", (merged, merged))
        yield from _with_bias(f"{tower}.{merger}.mlp.2", (HIDDEN, merged))


def _talker_parameters() -> Iterator[tuple[str, Shape]]:
    hidden = TALKER_HIDDEN
    yield "talker.model.codec_embedding.weight", (CODEBOOK + RESERVED_CODES, hidden)
    for layer in range(TALKER_LAYERS):
        prefix = f"talker.model.layers.{layer}"
        yield from _norms(prefix, hidden)
        yield from _attention(f"{prefix}.self_attn", hidden, TALKER_HEADS, TALKER_KV_HEADS, TALKER_HEAD_DIM)
        yield from _experts(f"{prefix}.mlp", hidden, TALKER_EXPERTS, TALKER_EXPERT_WIDTH)
        yield from _gated(f"{prefix}.mlp.shared_expert", hidden, TALKER_EXPERT_WIDTH)
        yield f"{prefix}.mlp.shared_expert_gate.weight", (1, hidden)
    yield "talker.model.norm.weight", (hidden,)
    for projection in ("text_projection", "hidden_projection"):
        yield from _with_bias(f"talker.{projection}.linear_fc1", (TALKER_WIDTH, HIDDEN))
        yield from _with_bias(f"talker.{projection}.linear_fc2", (hidden, TALKER_WIDTH))
    yield "talker.codec_head.weight", (CODEBOOK + RESERVED_CODES, hidden)


def _predictor_parameters() -> Iterator[tuple[str, Shape]]:
    predictor, hidden = "talker.code_predictor", TALKER_HIDDEN
    for group in range(CODEBOOKS - 1):
        yield f"{predictor}.model.codec_embedding.{group}.weight", (CODEBOOK, hidden)
        yield f"{predictor}.lm_head.{group}.weight", (CODEBOOK, hidden)
    for layer in range(PREDICTOR_LAYERS):
        prefix = f"{predictor}.model.layers.{layer}"
        yield from _norms(prefix, hidden)
        yield from _attention(f"{prefix}.self_attn", hidden, TALKER_HEADS, TALKER_KV_HEADS, TALKER_HEAD_DIM)
        yield from _gated(f"{prefix}.mlp", hidden, PREDICTOR_WIDTH)
    yield f"{predictor}.model.norm.weight", (hidden,)


def _code2wav_parameters() -> Iterator[tuple[str, Shape]]:
    stage, hidden = "code2wav", WAVE_HIDDEN
    yield f"{stage}.code_embedding.weight", (CODEBOOK * CODEBOOKS, hidden)
    for layer in range(WAVE_LAYERS):
        prefix = f"{stage}.pre_transformer.layers.{layer}"
        yield from _norms(prefix, hidden)
        for part in ("q_proj", "k_proj", "v_proj", "o_proj"):
            yield f"{prefix}.self_attn.{part}.weight", (hidden, hidden)
        yield from _gated(f"{prefix}.mlp", hidden, WAVE_WIDTH)
        yield f"{prefix}.self_attn_layer_scale.scale", (hidden,)
        yield f"{prefix}.mlp_layer_scale.scale", (hidden,)
    yield f"{stage}.pre_transformer.norm.weight", (hidden,)
    for number, ratio in enumerate(UPSAMPLING_RATIOS):
        yield from _with_bias(f"{stage}.upsample.{number}.0.conv", (hidden, hidden, ratio), outputs=hidden)
        block = f"{stage}.upsample.{number}.1"
        yield from _with_bias(f"{block}.dwconv.conv", (hidden, 1, 7))
        yield from _with_bias(f"{block}.norm", (hidden,))
        yield from _with_bias(f"{block}.pwconv1", (4 * hidden, hidden))
        yield from _with_bias(f"{block}.pwconv2", (hidden, 4 * hidden))
        yield f"{block}.gamma", (hidden,)
    yield from _wave_decoder_parameters(f"{stage}.decoder")


def _wave_decoder_parameters(decoder: str) -> Iterator[tuple[str, Shape]]:
    channels, rates = WAVE_CHANNELS, UPSAMPLE_RATES
    yield from _with_bias(f"{decoder}.0.conv", (channels, WAVE_HIDDEN, 7))
    for number, rate in enumerate(rates):
        inputs, outputs = channels >> number, channels >> (number + 1)
        block = f"{decoder}.{number + 1}.block"
        yield from _snake(f"{block}.0", inputs)
        yield from _with_bias(f"{block}.1.conv", (inputs, outputs, 2 * rate), outputs=outputs)
        for unit in (2, 3, 4):
            yield from _snake(f"{block}.{unit}.act1", outputs)
            yield from _with_bias(f"{block}.{unit}.conv1.conv", (outputs, outputs, 7))
            yield from _snake(f"{block}.{unit}.act2", outputs)
            yield from _with_bias(f"{block}.{unit}.conv2.conv", (outputs, outputs, 1))
    last = channels >> len(rates)
    yield from _snake(f"{decoder}.{len(rates) + 1}", last)
    yield from _with_bias(f"{decoder}.{len(rates) + 2}.conv", (1, last, 7))


def _norms(prefix: str, width: int) -> Iterator[tuple[str, Shape]]:
    yield f"{prefix}.input_layernorm.weight", (width,)
    yield f"{prefix}.post_attention_layernorm.weight", (width,)


def _attention(prefix: str, hidden: int, heads: int, kv_heads: int, head_dim: int) -> Iterator[tuple[str, Shape]]:
    yield f"{prefix}.q_proj.weight", (heads * head_dim, hidden)
    yield f"{prefix}.k_proj.weight", (kv_heads * head_dim, hidden)
    yield f"{prefix}.v_proj.weight", (kv_heads * head_dim, hidden)
    yield f"{prefix}.o_proj.weight", (hidden, heads * head_dim)
    yield f"{prefix}.q_norm.weight", (head_dim,)
    yield f"{prefix}.k_norm.weight", (head_dim,)


def _experts(prefix: str, hidden: int, experts: int, width: int) -> Iterator[tuple[str, Shape]]:
    yield f"{prefix}.gate.weight", (experts, hidden)
    for expert in range(experts):
        yield from _gated(f"{prefix}.experts.{expert}", hidden, width)


def _gated(prefix: str, hidden: int, width: int) -> Iterator[tuple[str, Shape]]:
    yield f"{prefix}.gate_proj.weight", (width, hidden)
    yield f"{prefix}.up_proj.weight", (width, hidden)
    yield f"{prefix}.down_proj.weight", (hidden, width)


def _with_bias(prefix: str, shape: Shape, outputs: int | None = None) -> Iterator[tuple[str, Shape]]:
    yield f"{prefix}.weight", shape
    yield f"{prefix}.bias", (outputs or shape[0],)


def _snake(prefix: str, channels: int) -> Iterator[tuple[str, Shape]]:
    yield f"{prefix}.alpha", (channels,)
    yield f"{prefix}.beta", (channels,)


# ------------------------------------------------------------------------------------------------------------- weights


def tensor(name: str, shape: Shape) -> NDArray[Any]:
    """A random tensor that depends on its name and the seed alone.

    The scale keeps activations near one through every layer, as in a trained model: ones in the norms, unit variance in
    embeddings, 1/√inputs in matrices and convolutions. ``RandomState`` because numpy has frozen its stream for good.
    """
    import numpy as np

    if len(shape) == 1:
        return np.full(shape, _constant(name), dtype=np.float32)
    random = np.random.RandomState((SEED + zlib.crc32(name.encode())) % 2**32)
    values = random.standard_normal(shape)
    if "embed" not in name:
        values /= float(np.prod(shape[1:])) ** 0.5
    _shape_by_hand(name, values)
    return values.astype(np.float32)


def _constant(name: str) -> float:
    """Of vectors: nothing for biases and the exponents of activations, a plain part for what scales a layer."""
    if name.endswith((".bias", ".alpha", ".beta")):
        return 0.0
    return 0.5 if name.endswith((".scale", ".gamma")) else 1.0


def _shape_by_hand(name: str, values: NDArray[Any]) -> None:
    """What a few matrices have beside chance: answers in words, speech that ends with its text and is not too loud."""
    if name == "thinker.lm_head.weight":
        values[:RAW_BYTES] *= 0.1  # words rather than broken UTF-8
        silent = [token(special) for special in SPECIAL_TOKENS if special != TURN_END]
        values[silent] = 0.0
    elif name == "thinker.model.embed_tokens.weight":
        values[:, 0] = 0.0
        values[token(SPEECH_PAD), 0] = _MARK
    elif name == "talker.text_projection.linear_fc1.weight":
        values[0] = 0.0
        values[0, 0] = 1.0
    elif name == "talker.text_projection.linear_fc2.weight":
        values[:, 0] = 0.0
        values[0, 0] = 1.0
    elif name == f"code2wav.decoder.{len(UPSAMPLE_RATES) + 2}.conv.weight":
        values *= _LOUDNESS
    elif name == "talker.codec_head.weight":
        end = _talker_config()["codec_eos_token_id"]
        values[end] = 0.0
        values[end, 0] = _END_OF_SPEECH_GAIN
