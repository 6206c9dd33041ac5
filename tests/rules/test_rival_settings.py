"""OC710: two settings for the same thing, as vLLM 0.30 and vLLM-Omni 0.30.0 refuse them together."""

from __future__ import annotations

import pytest

from tests.conftest import WriteProfile
from tests.rules.checked import findings, of_one_stage

BOTH = (
    # the kind of stage, two settings, and how the second is named
    ("llm", "attention_backend: FLASH_ATTN", "attention_config: {backend: FLASH_ATTN}", "attention_config.backend"),
    (
        "llm",
        "max_cudagraph_capture_size: 8",
        "compilation_config: {max_cudagraph_capture_size: 8}",
        "compilation_config.max_cudagraph_capture_size",
    ),
    ("llm", "data_parallel_hybrid_lb: true", "data_parallel_external_lb: true", "data_parallel_external_lb"),
    ("diffusion", "quantization: fp8", "quantization_config: {method: fp8}", "quantization_config"),
    ("diffusion", "quantization: fp8", "diffusion_quantization_config: fp8", "diffusion_quantization_config"),
    ("diffusion", "diffusion_quantization_config: fp8", "quantization_config: fp8", "quantization_config"),
    ("diffusion", "static_lora_scale: 0.5", "lora_scale: 1.0", "lora_scale"),
    ("diffusion", "kv_cache_skip_steps: '1'", "diffusion_kv_cache_skip_steps: '1'", "diffusion_kv_cache_skip_steps"),
    ("diffusion", "kv_cache_skip_layers: '1'", "diffusion_kv_cache_skip_layers: '1'", "diffusion_kv_cache_skip_layers"),
)


@pytest.mark.parametrize(("kind", "one", "other", "named"), BOTH)
def test_both_of_a_pair(profile_file: WriteProfile, kind: str, one: str, other: str, named: str) -> None:
    path = profile_file(of_one_stage(kind, f"{one}, {other}"))
    (found,) = findings(path, "OC710")
    name = one.partition(":")[0]
    assert found.message.startswith(f"`{name}` of stage 0 cannot stand beside `{named}` ({path}:4:")
    assert (found.line, found.column) == (4, 19 + len(name) + 2)
    assert found.help == "Keep one of the two."


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        *((kind, one) for kind, one, _, _ in BOTH),
        *((kind, other) for kind, _, other, _ in BOTH),
        ("llm", "attention_backend: FLASH_ATTN, attention_config: {backend: auto}"),
        ("llm", "attention_backend: FLASH_ATTN, attention_config: {}"),
        ("llm", "data_parallel_hybrid_lb: false, data_parallel_external_lb: true"),
        ("llm", "quantization: fp8, quantization_config: {}"),
        ("diffusion", "quantization: fp8, quantization_config: null"),
    ],
)
def test_one_of_a_pair(profile_file: WriteProfile, kind: str, settings: str) -> None:
    assert findings(profile_file(of_one_stage(kind, settings)), "OC710") == []


def test_of_two_files_the_upper_one_is_told(profile_file: WriteProfile) -> None:
    base = profile_file(of_one_stage("llm", "attention_backend: FLASH_ATTN"), "base.yaml")
    text = f"base_config: {base}\nstages:\n  - {{stage_id: 0, attention_config: {{backend: FLASHINFER}}}}\n"
    (found,) = findings(profile_file(text), "OC710")
    assert found.message.startswith("`attention_config.backend` of stage 0 cannot stand beside `attention_backend` (")
    assert (found.line, found.column) == (3, 47)
