"""What OC301 to OC307 leave alone: losses that hurt nobody, and those whose author made clear that they are meant."""

from __future__ import annotations

import pytest

import omnicfg
from tests.conftest import WriteProfile

HEAD = "pipeline: qwen3_tts\nasync_chunk: false\n"


def codes(write: WriteProfile, below: str, above: str, *, head: str = "") -> list[str]:
    """The codes of the findings about losses where ``above`` stands in stage 0 of a file on top of ``below``."""
    write(f"{HEAD}{head}stages:\n  - stage_id: 0\n    {below}\n", "base.yaml")
    profile = write(f"base_config: base.yaml\nstages:\n  - stage_id: 0\n    {above}\n")
    return [one.code for one in omnicfg.validate(profile) if one.code.startswith("OC3")]


@pytest.mark.parametrize(
    ("below", "above"),
    [
        ("engine_args: {max_num_seqs: 4}", "max_num_seqs: 4"),
        ("engine_args: {max_num_seqs: 4}", "engine_args: {max_num_seqs: 2}"),
        ("max_num_seqs: 4", "engine_args: {max_num_seqs: 2}"),
        ("max_num_seqs: 4", "engine_extras: {max_num_seqs: 2}"),
        ("engine_args: {max_num_seqs: 4}", "engine_extras: {max_num_seqs: 2}"),
        ("engine_extras: {kv_cache_dtype: fp8}", "kv_cache_dtype: auto"),
        ("devices: '0'", "runtime: {devices: '1'}"),
        ("max_num_seqs: 4", "max_num_seqs: 2"),
        ("max_num_seqs: 4", "max_num_seqs: null"),
        ("engine_args: {gpu_memory_utilization: 1.0}", "gpu_memory_utilization: 1"),
    ],
)
def test_a_setting_on_top_that_wins_or_says_the_same(profile_file: WriteProfile, below: str, above: str) -> None:
    assert codes(profile_file, below, above) == []


@pytest.mark.parametrize(
    ("below", "above"),
    [
        ("compilation_config: {cudagraph_mode: FULL}", "compilation_config: {cudagraph_mode: NONE, mode: 3}"),
        ("compilation_config: {cudagraph_mode: FULL}", "compilation_config: {mode: 3, cudagraph_mode: null}"),
        ("compilation_config: {cudagraph_mode: FULL}", "compilation_config: {}"),
        ("compilation_config: {cudagraph_mode: FULL}", "compilation_config: null"),
        ("compilation_config: {cudagraph_mode: FULL}", "engine_args: {compilation_config: {mode: 3}}"),
        ("engine_args: {compilation_config: {cudagraph_mode: FULL}}", "engine_args: {compilation_config: {mode: 3}}"),
        ("env: {A: '1'}", "env: {}"),
        ("runtime: {devices: '0'}", "{runtime: {num_replicas: 1}, devices: '0'}"),
        ("speculative_config: {method: ngram, prompt_lookup_max: 4}", "speculative_config: {method: mtp}"),
        ("hf_overrides: {use_graphs: true}", "hf_overrides: {use_native: true}"),
        ("parallel_config: {ring_degree: 1, use_hsdp: false}", "parallel_config: {ulysses_degree: 2}"),
    ],
)
def test_a_block_that_is_clearly_meant_whole(profile_file: WriteProfile, below: str, above: str) -> None:
    above = above.replace("{runtime", "runtime").replace("1}, devices: '0'}", "1}\n    devices: '0'")
    assert codes(profile_file, below, above) == []


def test_a_default_that_is_no_longer_said_is_no_loss(profile_file: WriteProfile) -> None:
    profile_file(HEAD + "duplex_session: {max_sessions: 3, warmup_frames: 0}\n", "base.yaml")
    default = omnicfg.resolve(profile_file("pipeline: qwen3_tts\n")).deploy.mapping("duplex_session")
    profile_file(
        HEAD + f"duplex_session: {{max_sessions: 3, warmup_frames: {default.value('warmup_frames')}}}\n", "base.yaml"
    )
    profile = profile_file("base_config: base.yaml\nduplex_session: {max_sessions: 2}\n")
    assert [one.code for one in omnicfg.validate(profile) if one.code == "OC303"] == []


def test_what_a_file_on_top_sets_again_was_not_lost(profile_file: WriteProfile) -> None:
    """The base loses a setting of its own base, and the profile has it again: here nothing is missing."""
    config = "stages: [{{stage_id: 0, compilation_config: {}}}]\n"
    profile_file(HEAD + config.format("{cudagraph_mode: FULL, mode: 3}"), "bottom.yaml")
    base = profile_file("base_config: bottom.yaml\n" + config.format("{mode: 2}"), "base.yaml")
    profile = profile_file("base_config: base.yaml\n" + config.format("{mode: 2, cudagraph_mode: NONE}"))
    assert [one.code for one in omnicfg.validate(base)] == ["OC303"]
    assert omnicfg.validate(profile) == []


@pytest.mark.parametrize(
    ("below", "above"),
    [
        ("[1, 2]", "[2, 9]"),
        ("[1, 2]", "[1]"),
        ("[1, 2]", "[]"),
        ("[1, 2]", "null"),
        ("[]", "[9]"),
    ],
)
def test_a_list_whose_author_knew_the_other(profile_file: WriteProfile, below: str, above: str) -> None:
    params = "default_sampling_params: {{stop_token_ids: {}}}"
    assert codes(profile_file, params.format(below), params.format(above)) == []


def test_a_list_that_is_one_value(profile_file: WriteProfile) -> None:
    sizes = "engine_args: {{compilation_config: {{cudagraph_capture_sizes: {}}}}}"
    assert codes(profile_file, sizes.format("[1, 2]"), sizes.format("[4]")) == []


def test_nothing_over_nothing(profile_file: WriteProfile) -> None:
    assert codes(profile_file, "default_sampling_params: {}", "default_sampling_params: null") == []
    assert codes(profile_file, "max_num_seqs: 1", "default_sampling_params: {}") == []
    profile_file(HEAD + "connectors: {}\nplatforms: null\n", "base.yaml")
    assert omnicfg.validate(profile_file("base_config: base.yaml\nconnectors: null\nplatforms: {}\nstages: []\n")) == []


def test_a_stage_that_leaves_a_setting_of_all_stages_alone(profile_file: WriteProfile) -> None:
    assert codes(profile_file, "max_num_seqs: 1", "quantization: null") == []
    assert codes(profile_file, "max_num_seqs: 1", "quantization: null", head="quantization: fp8\n") == ["OC307"]
    assert codes(profile_file, "max_num_seqs: 1", "quantization: awq", head="quantization: fp8\n") == []


def test_a_platform_that_speaks_for_itself(profile_file: WriteProfile) -> None:
    text = """\
stages:
  - stage_id: 0
    max_num_seqs: 8
    default_sampling_params: {top_k: 3}
    env: {A: '1'}
platforms:
  npu:
    stages:
      - stage_id: 0
        max_num_seqs: 1
        default_sampling_params: {temperature: 0.0}
        env: {B: '2'}
        devices: '3'
  xpu:
    stages:
      - stage_id: 0
        engine_args: {max_num_seqs: 1}
        runtime: {devices: '3', env: {B: '2'}}
"""
    assert omnicfg.validate(profile_file(HEAD + text)) == []
