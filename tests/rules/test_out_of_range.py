"""OC105: numbers outside the range that the engine accepts."""

from __future__ import annotations

import pytest

from tests.conftest import WriteProfile
from tests.rules.checked import findings, told

STAGE = "pipeline: qwen3_tts\nasync_chunk: false\nstages:\n  - stage_id: 0\n"

WRONG = {
    "gpu_memory_utilization: 0": "`gpu_memory_utilization` in stage 0 is 0; it has to be above 0 and at most 1",
    "gpu_memory_utilization: 1.01": "`gpu_memory_utilization` in stage 0 is 1.01; it has to be above 0 and at most 1",
    "gpu_memory_utilization: .nan": "`gpu_memory_utilization` in stage 0 is nan; it has to be above 0 and at most 1",
    "num_replicas: 0": "`num_replicas` in stage 0 is 0; it has to be at least 1",
    "num_replicas: -1": "`num_replicas` in stage 0 is -1; it has to be at least 1",
    "max_num_seqs: 0": "`max_num_seqs` in stage 0 is 0; it has to be at least 1",
    "max_num_batched_tokens: 0": "`max_num_batched_tokens` in stage 0 is 0; it has to be at least 1",
    "tensor_parallel_size: 0": "`tensor_parallel_size` in stage 0 is 0; it has to be at least 1",
    "block_size: 0": "`block_size` in stage 0 is 0; it has to be above 0",
    "active_stream_window: -1": "`active_stream_window` in stage 0 is -1; it has to be at least 0",
    "num_weight_load_threads: 0": "`num_weight_load_threads` in stage 0 is 0; it has to be at least 1",
    "max_num_seqs: 9223372036854775808": (
        "`max_num_seqs` in stage 0 is 9223372036854775808; it has to fit into 64 bits"
    ),
    "seed: -99999999999999999999999999999999999999": (
        "`seed` in stage 0 is -99999999999999999999999999999...; it has to fit into 64 bits"
    ),
    "max_model_len: -2": "`max_model_len` in stage 0 is -2; it has to be at least -1",
}


@pytest.mark.parametrize(("setting", "message"), WRONG.items())
def test_a_number_out_of_range(profile_file: WriteProfile, setting: str, message: str) -> None:
    column = setting.index(":") + 7
    assert told(profile_file(f"{STAGE}    {setting}\n"), "OC105") == [(5, column, message)]


@pytest.mark.parametrize(
    "setting",
    [
        "gpu_memory_utilization: 1",
        "gpu_memory_utilization: 0.001",
        "num_replicas: 1",
        "max_num_seqs: 1",
        "seed: 9223372036854775807",
    ],
)
def test_the_ends_of_a_range_are_in_it(profile_file: WriteProfile, setting: str) -> None:
    assert told(profile_file(f"{STAGE}    {setting}\n"), "OC105") == []


@pytest.mark.parametrize("value", ["true", "'0'", "null", "[0]"])
def test_what_is_no_number_is_left_to_other_rules(profile_file: WriteProfile, value: str) -> None:
    assert told(profile_file(f"{STAGE}    max_num_seqs: {value}\n"), "OC105") == []


def test_the_same_key_elsewhere_is_free(profile_file: WriteProfile) -> None:
    assert told(profile_file(STAGE + "    env: {num_replicas: 0}\n"), "OC105") == []


def test_in_a_platform_block(profile_file: WriteProfile) -> None:
    text = STAGE + "platforms:\n  xpu:\n    stages:\n      - {stage_id: 0, max_num_seqs: 0}\n"
    (found,) = findings(profile_file(text), "OC105")
    assert (found.line, found.column, found.platform, found.stage_id) == (8, 37, "xpu", 0)


@pytest.mark.parametrize(
    ("parameter", "allowed"),
    [
        ("temperature: -0.1", "at least 0 and at most 2"),
        ("temperature: 2.5", "at least 0 and at most 2"),
        ("top_p: 0", "above 0 and at most 1"),
        ("top_k: -2", "at least -1"),
        ("repetition_penalty: 0", "above 0"),
        ("max_tokens: 0", "at least 1"),
    ],
)
def test_sampling_parameters_that_no_request_could_have(
    profile_file: WriteProfile, parameter: str, allowed: str
) -> None:
    name, _, value = parameter.partition(": ")
    (found,) = findings(profile_file(f"{STAGE}    default_sampling_params: {{{parameter}}}\n"), "OC105")
    assert found.message == (f"`{name}` in `default_sampling_params` of stage 0 is {value}; it has to be {allowed}")


def test_a_field_of_a_nested_config(profile_file: WriteProfile) -> None:
    text = STAGE + "    profiler_config: {active_iterations: 0}\n"
    assert told(profile_file(text), "OC105") == [
        (5, 42, "`active_iterations` in `profiler_config` of stage 0 is 0; it has to be at least 1")
    ]


def test_a_diffusion_stage_has_ranges_of_its_own(profile_file: WriteProfile) -> None:
    text = "pipeline: dreamzero\nstages:\n  - stage_id: 0\n    parallel_config: {ulysses_degree: 0}\n"
    assert [line for line, _, _ in told(profile_file(text), "OC105")] == [4]
    free = "    max_model_len: -2\n    default_sampling_params: {temperature: 5}\n"
    assert told(profile_file(text.partition("    parallel")[0] + free), "OC105") == []


def _beside(settings: str, pipeline: str = "qwen3_tts") -> str:
    return f"pipeline: {pipeline}\nasync_chunk: false\nstages:\n  - {{stage_id: 0, {settings}}}\n"


BEYOND = {
    # settings of a text stage → the first number that upstream refuses beside the other, and what it has to be
    "data_parallel_rank: 2, data_parallel_size: 2": "is 2; it has to be below 2, which is `data_parallel_size`",
    "data_parallel_rank: 1": "is 1; it has to be below 1: no `data_parallel_size` is set",
    "data_parallel_size_local: 4, data_parallel_size: 2": "is 4; it has to be at most 2, which is `data_parallel_size`",
    "node_rank: 2, nnodes: 2": "is 2; it has to be below 2, which is `nnodes`",
    "long_prefill_token_threshold: 4097, max_model_len: 4096": (
        "is 4097; it has to be at most 4096, which is `max_model_len`"
    ),
    "dbo_prefill_token_threshold: 3, ubatch_size: 4": "is 3; it has to be at least 4, the number of microbatches",
    "dbo_decode_token_threshold: 1, enable_dbo: true": "is 1; it has to be at least 2, the number of microbatches",
    "default_sampling_params: {min_tokens: 9, max_tokens: 8}": "is 9; it has to be at most 8, which is `max_tokens`",
}


@pytest.mark.parametrize(("settings", "message"), BEYOND.items())
def test_a_number_beyond_another_one(profile_file: WriteProfile, settings: str, message: str) -> None:
    (found,) = findings(profile_file(_beside(settings)), "OC105")
    name = settings.removeprefix("default_sampling_params: {").partition(":")[0]
    assert found.message == f"`{name}` of stage 0 {message}"
    assert (found.line, found.column) == (4, 19 + settings.index(name) + len(name) + 2)


@pytest.mark.parametrize(
    "settings",
    [
        "data_parallel_rank: 1, data_parallel_size: 2",
        "data_parallel_rank: 0",
        "data_parallel_size_local: 2, data_parallel_size: 2",
        "data_parallel_size_local: 0",
        "node_rank: 3",
        "node_rank: 1, nnodes: 2",
        "long_prefill_token_threshold: 4096, max_model_len: 4096",
        "long_prefill_token_threshold: 4096, max_model_len: -1",
        "long_prefill_token_threshold: 4096",
        "dbo_decode_token_threshold: 1",
        "dbo_decode_token_threshold: 2, enable_dbo: true, ubatch_size: 64",
        "ubatch_size: 32",
        "default_sampling_params: {min_tokens: 8, max_tokens: 8}",
        "default_sampling_params: {min_tokens: 8}",
    ],
)
def test_a_number_that_another_one_admits(profile_file: WriteProfile, settings: str) -> None:
    assert told(profile_file(_beside(settings)), "OC105") == []


def test_more_microbatches_than_the_default_of_the_smallest_batch(profile_file: WriteProfile) -> None:
    message = "`dbo_decode_token_threshold` of stage 0 is 32; it has to be at least 33, the number of microbatches"
    assert told(profile_file(_beside("ubatch_size: 33")), "OC105") == [(4, 32, message)]


def test_what_is_beyond_is_told_where_the_topmost_of_both_is_written(profile_file: WriteProfile) -> None:
    base = profile_file(_beside("data_parallel_rank: 1, data_parallel_size: 2"), "base.yaml")
    text = f"base_config: {base}\nstages:\n  - {{stage_id: 0, data_parallel_size: 1}}\n"
    (found,) = findings(profile_file(text), "OC105")
    assert (found.path.endswith("profile.yaml"), found.line) == (True, 3)
    assert f"is 1 ({base}:4:" in found.message


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ("hsdp_shard_size: 0", "`hsdp_shard_size` has to be at least 1, or -1 for what the other sizes leave"),
        ("hsdp_shard_size: 3, ulysses_degree: 4", "they have to cover the 4 ranks of the other sizes together"),
        (
            "hsdp_shard_size: 2, hsdp_replicate_size: 2, ring_degree: 2",
            "they have to cover the 2 ranks of the other sizes together",
        ),
        (
            "hsdp_replicate_size: 3, cfg_parallel_size: 2",
            "`hsdp_replicate_size` has to divide the 2 ranks of the other sizes",
        ),
    ],
)
def test_hsdp_covers_what_the_stage_is_split_into(profile_file: WriteProfile, settings: str, wanted: str) -> None:
    (found,) = findings(profile_file(_beside(f"use_hsdp: true, {settings}", "dreamzero")), "OC105")
    assert found.message.endswith(f"; {wanted}")


@pytest.mark.parametrize(
    "settings",
    [
        "use_hsdp: true, hsdp_shard_size: 2, hsdp_replicate_size: 2, ulysses_degree: 4",
        "use_hsdp: true, hsdp_shard_size: 8",
        "use_hsdp: true, hsdp_replicate_size: 2, ulysses_degree: 4",
        "use_hsdp: true, allgather_degree: 2",
        "use_hsdp: false, hsdp_shard_size: 3, ulysses_degree: 4",
    ],
)
def test_hsdp_that_fits(profile_file: WriteProfile, settings: str) -> None:
    assert told(profile_file(_beside(settings, "dreamzero")), "OC105") == []


@pytest.mark.parametrize("setting", ["dlo_host_registration_limit_gib: .inf", "max_cpu_loras: 0"])
def test_numbers_of_diffusion_stages(profile_file: WriteProfile, setting: str) -> None:
    assert [each[1] for each in told(profile_file(_beside(setting, "dreamzero")), "OC105")] == [
        19 + setting.index(":") + 2
    ]


MANY = "numa_bind: true, distributed_executor_backend: mp, tensor_parallel_size: 2"


@pytest.mark.parametrize("name", ["numa_bind_nodes: [0]", "numa_bind_cpus: ['0-3']"])
def test_a_list_that_leaves_workers_without_an_entry(profile_file: WriteProfile, name: str) -> None:
    (found,) = findings(profile_file(_beside(f"{name}, {MANY}, pipeline_parallel_size: 2")), "OC105")
    key = name.partition(":")[0]
    assert found.message == f"`{key}` of stage 0 lists 1 for 4 workers"
    assert (found.line, found.column) == (4, 19 + len(key) + 2)


@pytest.mark.parametrize(
    "settings",
    [
        f"numa_bind_nodes: [0, 0], numa_bind_cpus: ['0-3', '4-7'], {MANY}",
        f"numa_bind_nodes: [0, 0, 1], {MANY}",
        f"numa_bind_nodes: [0], {MANY}".replace("mp", "ray"),
        f"numa_bind_nodes: [0], {MANY}, nnodes: 2",
        "numa_bind_nodes: [0], numa_bind: true, distributed_executor_backend: mp",
    ],
)
def test_lists_for_all_workers_that_are_bound(profile_file: WriteProfile, settings: str) -> None:
    assert told(profile_file(_beside(settings)), "OC105") == []
