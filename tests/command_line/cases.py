"""Command lines, each with the deploy file that it names; what vllm-omni makes of them lies beside this file."""

from __future__ import annotations

from itertools import product
from typing import Final, NamedTuple

TTS: Final = """\
pipeline: qwen3_tts
async_chunk: true
dtype: bfloat16
stages:
  - stage_id: 0
    devices: "0"
    gpu_memory_utilization: 0.3
    max_num_seqs: 10
    enable_prefix_caching: false
    engine_extras: {seed: 7}
    hf_overrides: {a: {b: 1, c: 2}}
  - stage_id: 1
    devices: "0"
    gpu_memory_utilization: 0.2
    enforce_eager: true
platforms:
  cuda:
    stages:
      - {stage_id: 1, max_num_seqs: 4}
"""
BAGEL: Final = """\
pipeline: bagel
async_chunk: false
stages:
  - {stage_id: 0, devices: "0", max_num_seqs: 3}
  - {stage_id: 1, devices: "0", parallel_config: {ulysses_degree: 2}}
"""
OMNI: Final = """\
pipeline: qwen3_omni_moe
stages:
  - {stage_id: 0, devices: "0", gpu_memory_utilization: 0.9}
  - {stage_id: 1, devices: "1", gpu_memory_utilization: 0.6}
  - {stage_id: 2, devices: "1", gpu_memory_utilization: 0.1, async_scheduling: false}
"""
SINGLE: Final = 'pipeline: voxcpm2\nstages:\n  - {stage_id: 0, devices: "0"}\n'
FILES: Final = {"qwen3_tts": TTS, "bagel": BAGEL, "qwen3_omni_moe": OMNI, "voxcpm2": SINGLE}

FLAGS: Final = (
    "--gpu-memory-utilization 0.9",
    "--gpu_memory_utilization=0.85",
    "--gpu-memory-util 0.7",
    "--max-num-seqs 8 --max-num-seqs 16",
    "-tp 2",
    "-tp=4",
    "--tensor-parallel-size 2 --pipeline-parallel-size 2",
    "--enforce-eager",
    "--no-enforce-eager",
    "--no-enable-prefix-caching --no-async-chunk",
    "--async-chunk --enable-prefix-caching",
    "--trust-remote-code --dtype float16",
    "--max-model-len 8k",
    "--max-model-len 8K --max-num-batched-tokens 1.5k",
    "--quantization fp8",
    "--seed 3",
    "--kv-cache-dtype fp8",
    "--host 0.0.0.0 --port 9000 --api-key x --served-model-name a b",
    '--hf-overrides {"a":{"b":5}}',
    "--hf-overrides.a.c 9 --hf-overrides.d.e word",
    '--limit-mm-per-prompt {"image":2}',
    '--additional-config {"k":[1,2]}',
    "--load-format dummy --tokenizer-mode slow",
    "--block-size 32 --distributed-executor-backend mp",
    "--log-stats --stage-init-timeout 20 --init-timeout 30",
    "--omni-lb-policy round-robin --worker-backend multi_process",
    "--batch-timeout 4",
    "--shm-threshold-bytes 10",
    "--enable-chunked-prefill --async-scheduling",
    "--no-async-scheduling --revision main",
    "--data-parallel-size 2",
    "--enable-expert-parallel",
    "--ulysses-degree 2 --ring-degree 2",
    "--cfg-parallel-size 2 --vae-use-tiling",
    "--flow-shift 5.0",
    '--cache-backend cache_dit --cache-config {"a":1}',
    "--diffusion-attention-backend FLASH_ATTN",
    "--tokenizer t --default-sampling-params {}",
    "-cc.mode=3 --compilation-config.custom_ops+ none",
    "--enable-lora",
    '--speculative-config {"model":"x"}',
    "--num-gpus 2",
    "--tts-max-instructions-length 100",
    "--task-type Base",
    "--max-model-len lots",
    "--port many",
    "--load-format",
    "--no-such-flag 3",
    "--max",
    "--stage-configs-path old.yaml",
    '--stage-overrides {"0":{"max_num_seqs":3},"1":{"devices":"1","num_replicas":2}}',
    '--stage-overrides {"0":{"gpu_memory_utilization":0.5}} --gpu-memory-utilization 0.4',
    '--gpu-memory-utilization 0.4 --stage-overrides {"1":{"gpu_memory_utilization":0.5}}',
    '--stage-overrides {"9":{"max_num_seqs":3}}',
    '--stage-overrides {"00":{"max_num_seqs":3,"hf_overrides":{"z":1}}}',
    '--stage-overrides {"0":{"no_such_key":3}}',
    '--stage-overrides {"0":{"tokenizer":"t","model":"m","async_chunk":false}}',
    '--stage-overrides {"0":{"enforce_eager":null}}',
    '--stage-overrides {"0":{"hf_overrides":{"a":{"c":3},"n":{}}}}',
    '--stage-overrides {"0":{"env":{"A":"1"}}}',
    '--stage-overrides {"0":{"default_sampling_params":{"temperature":0.1}}}',
    '--stage-overrides {"1":{"tensor_parallel_size":2,"ulysses_degree":4}}',
    '--stage-overrides {"1":{"seed":4}}',
    '--stage-overrides {"1":{"step_execution":true}}',
    "--stage-overrides [1]",
    '--stage-overrides {"a":{}}',
    '--stage-overrides {"0":1}',
    "--stage-overrides nonsense",
    '--stage-overrides {"1":{"runtime":null}}',
    "--middleware a.b --middleware c.d",
    "--scheduler-cls a.B",
    "--mm-encoder-attn-dtype None",
    "--safetensors-load-strategy=",
    "--model other",
    "--compilation-config.cudagraph_mod NONE",
    '--kv-transfer-config {"kv_conector":"x"}',
    '--quantization-config {"method":"fp8"}',
)


class Case(NamedTuple):
    """A command: the words after `vllm`, but for the deploy file's path, and the file's name."""

    name: str
    file: str
    words: tuple[str, ...]


def cases() -> list[Case]:
    """Every group of flags with every file."""
    made = []
    for file, flags in product(FILES, FLAGS):
        made.append(Case(f"{file}: {flags}", file, ("serve", "model", "--omni", *flags.split(" "))))
    return made
