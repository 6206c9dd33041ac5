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
}


@pytest.mark.parametrize(("setting", "message"), WRONG.items())
def test_a_number_out_of_range(profile_file: WriteProfile, setting: str, message: str) -> None:
    column = setting.index(":") + 7
    assert told(profile_file(f"{STAGE}    {setting}\n"), "OC105") == [(5, column, message)]


@pytest.mark.parametrize(
    "setting", ["gpu_memory_utilization: 1", "gpu_memory_utilization: 0.001", "num_replicas: 1", "max_num_seqs: 1"]
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
