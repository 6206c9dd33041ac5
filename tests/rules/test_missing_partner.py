"""OC709: settings that need another one, as vLLM-Omni 0.30.0's typed config refuses them alone."""

from __future__ import annotations

import pytest

from tests.conftest import WriteProfile
from tests.rules.checked import findings, of_one_stage

REGISTRATION = "dlo_host_registration_limit_gib: 2.5"
RUNTIME = "host_weight_runtime_mode: preferred, host_weight_runtime_root: /dev/shm/w"
BALANCED = "enable_eplb: true, enable_expert_parallel: true, data_parallel_size: 2"
ALONE = {
    # a setting of the kind of stage → what it needs
    ("diffusion", "diffusion_kv_mode: paged_scheduler"): "`diffusion_kv_max_rows_per_request`",
    ("diffusion", "host_weight_runtime_mode: required"): "`host_weight_runtime_root`",
    ("diffusion", "fastvideo_vsa_topk: 0.5"): "`diffusion_attention_backend: FASTVIDEO_VSA`",
    ("diffusion", "diffusion_offload_config: {pin_memory: true}"): "`mode` and `components` in it",
    ("diffusion", "use_hsdp: true"): "`hsdp_shard_size`",
    ("diffusion", "parallel_config: {use_hsdp: true}"): "`hsdp_shard_size`",
    ("llm", "numa_bind_nodes: [0]"): "`numa_bind: true`",
    ("llm", "numa_bind_cpus: ['0-3']"): "`numa_bind: true`",
    ("llm", "data_parallel_external_lb: true"): "`data_parallel_size` above 1",
    ("llm", "decode_context_parallel_size: 2"): "a `tensor_parallel_size` that it divides",
    ("llm", "decode_context_parallel_size: 3, prefill_context_parallel_size: 2, tensor_parallel_size: 6"): (
        "a `prefill_context_parallel_size` that is as large, alone or times `tensor_parallel_size`"
    ),
    ("llm", "enable_eplb: true, tensor_parallel_size: 2"): "`enable_expert_parallel: true`",
    (
        "llm",
        "enable_eplb: true, enable_expert_parallel: true",
    ): "a `tensor_parallel_size` or `data_parallel_size` above 1",
    ("llm", "eplb_config: {num_redundant_experts: 2}"): "`enable_eplb: true`",
    ("llm", "enable_elastic_ep: true"): "`enable_eplb: true`",
    ("llm", "ray_workers_use_nsight: true"): "`distributed_executor_backend: ray`",
    ("llm", "ray_workers_use_nsight: true, data_parallel_backend: ray"): "`distributed_executor_backend: ray`",
    ("llm", "ray_workers_use_nsight: true, distributed_executor_backend: mp, tensor_parallel_size: 2"): (
        "`distributed_executor_backend: ray`"
    ),
    (
        "diffusion",
        f"{REGISTRATION}, dlo_use_allgather: false, {RUNTIME}",
    ): "`enable_distributed_layerwise_offload: true`",
    (
        "diffusion",
        f"{REGISTRATION}, enable_distributed_layerwise_offload: true, {RUNTIME}",
    ): "`dlo_use_allgather: false`",
    ("diffusion", f"{REGISTRATION}, enable_distributed_layerwise_offload: true, dlo_use_allgather: false"): (
        "a `host_weight_runtime_mode` of preferred or required"
    ),
    ("diffusion", "diffusers_load_kwargs: {variant: fp16}"): "`diffusion_load_format: diffusers`",
    ("diffusion", "diffusers_call_kwargs: {eta: 0.5}"): "`diffusion_load_format: diffusers`",
}
TOGETHER = (
    ("diffusion", "diffusion_kv_mode: paged_scheduler, diffusion_kv_max_rows_per_request: 64"),
    ("diffusion", "diffusion_kv_mode: dense_legacy"),
    ("diffusion", "host_weight_runtime_mode: preferred, host_weight_runtime_root: /dev/shm/w"),
    ("diffusion", "host_weight_runtime_mode: disabled"),
    ("diffusion", "fastvideo_vsa_topk: 0.5, diffusion_attention_backend: fastvideo_vsa"),
    ("diffusion", "fastvideo_vsa_topk: 0.5, diffusion_attention_config: {default: {backend: FASTVIDEO_VSA}}"),
    ("diffusion", "diffusion_offload_config: {mode: layer, components: [dit]}"),
    ("diffusion", "use_hsdp: true, hsdp_shard_size: 2"),
    ("diffusion", "use_hsdp: true, ulysses_degree: 2"),
    ("diffusion", "use_hsdp: true, parallel_config: {cfg_parallel_size: 2}"),
    ("diffusion", "use_hsdp: false"),
    ("diffusion", "numa_bind_nodes: [0]"),
    ("llm", "numa_bind: true, numa_bind_nodes: [0]"),
    ("llm", "data_parallel_external_lb: true, data_parallel_size: 2"),
    ("llm", "decode_context_parallel_size: 2, tensor_parallel_size: 4"),
    ("llm", "decode_context_parallel_size: 1"),
    ("llm", "decode_context_parallel_size: 2, prefill_context_parallel_size: 2"),
    ("llm", "decode_context_parallel_size: 4, prefill_context_parallel_size: 2, tensor_parallel_size: 2"),
    ("llm", "enable_eplb: true, enable_expert_parallel: true, prefill_context_parallel_size: 2"),
    ("llm", "eplb_config: {num_redundant_experts: 0}"),
    ("llm", f"eplb_config: {{num_redundant_experts: 1}}, {BALANCED}"),
    ("llm", "eplb_config: {window_size: 100}"),
    ("llm", "enable_eplb: false, enable_elastic_ep: false"),
    ("llm", f"enable_elastic_ep: true, {BALANCED}"),
    ("llm", "ray_workers_use_nsight: false"),
    ("llm", "ray_workers_use_nsight: true, distributed_executor_backend: ray"),
    ("llm", "ray_workers_use_nsight: true, distributed_executor_backend: ours.OnRay"),
    ("llm", "ray_workers_use_nsight: true, tensor_parallel_size: 2"),
    ("llm", "ray_workers_use_nsight: true, data_parallel_backend: ray, data_parallel_size: 2"),
    ("diffusion", "dlo_host_registration_limit_gib: 0"),
    (
        "diffusion",
        f"{REGISTRATION}, enable_distributed_layerwise_offload: true, dlo_use_allgather: false, {RUNTIME}",
    ),
    ("diffusion", "diffusers_load_kwargs: {}"),
    ("diffusion", "diffusers_load_kwargs: {variant: fp16}, diffusion_load_format: diffusers"),
)


@pytest.mark.parametrize(("setting", "partner"), ALONE.items())
def test_a_setting_without_its_partner(profile_file: WriteProfile, setting: tuple[str, str], partner: str) -> None:
    kind, text = setting
    (found,) = findings(profile_file(of_one_stage(kind, text)), "OC709")
    name, _, value = text.removeprefix("parallel_config: {").partition(", ")[0].partition(": ")
    assert (found.line, found.column) == (4, 19 + text.index(name) + len(name) + 2)
    shown = name if value[0] in "[{" else f"{name}: {value.removesuffix('}')}"
    assert found.message == f"`{shown}` of stage 0 needs {partner}, so the stage does not start"
    assert found.help == f"Set {partner} as well, or leave `{name}` out."


@pytest.mark.parametrize(("kind", "settings"), TOGETHER)
def test_a_setting_beside_its_partner(profile_file: WriteProfile, kind: str, settings: str) -> None:
    assert findings(profile_file(of_one_stage(kind, settings)), "OC709") == []
