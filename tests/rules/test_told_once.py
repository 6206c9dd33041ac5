"""One mistake is one finding, whichever rules could speak of it."""

from __future__ import annotations

import pytest

import omnicfg
from tests.conftest import WriteProfile

HEAD = "pipeline: qwen3_tts\nasync_chunk: false\n"


def codes(profile: object) -> list[str]:
    return [found.code for found in omnicfg.validate(str(profile)) if found.code != "OC501"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("stages: [{stage_id: 0, cpu_offload_gb: '10'}]\n", "OC101"),
        ("stages: [{stage_id: 0, cpu_offload_gb: -10}]\n", "OC101"),
        ("stages: [{stage_id: 0, cpu_offload_gb: much}]\n", "OC101"),
        ("stages: [{stage_id: 0, default_sampling_params: {stop_token_ids: 2150}}]\n", "OC008"),
        ("stages: [{stage_id: 0, devices: '0', gpu_memory_utilization: 30}, {stage_id: 1, devices: '0'}]\n", "OC105"),
        ("stages: [{stage_id: 0, dtype: bf16}]\n", "OC102"),
    ],
)
def test_in_one_file(profile_file: WriteProfile, text: str, code: str) -> None:
    assert codes(profile_file(HEAD + text)) == [code]


@pytest.mark.parametrize(
    ("below", "above", "code"),
    [
        ("stages: [{stage_id: 0, max_num_seqs: 8}]\n", "stages: null\n", "OC307"),
        (
            "platforms: {npu: {stages: [{stage_id: 0, compilation_config: {cudagraph_mode: FULL}}]}}\n",
            "stages: [{stage_id: 0, compilation_config: {cudagraph_capture_sizes: [4]}}]\n",
            "OC302",
        ),
    ],
)
def test_over_a_base(profile_file: WriteProfile, below: str, above: str, code: str) -> None:
    profile_file(HEAD + below, "base.yaml")
    assert codes(profile_file("base_config: base.yaml\n" + above)) == [code]


def test_a_null_over_no_stages(profile_file: WriteProfile) -> None:
    assert codes(profile_file(HEAD + "stages: null\n", "base.yaml")) == ["OC008"]
    profile_file(HEAD, "base.yaml")
    assert codes(profile_file("base_config: base.yaml\nstages: null\n")) == []  # as good as an empty list
