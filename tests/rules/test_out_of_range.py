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
