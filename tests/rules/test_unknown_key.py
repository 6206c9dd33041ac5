"""OC101: unknown keys, at every level and wherever the file lies in the chain."""

from __future__ import annotations

import pytest

import omnicfg
from tests.conftest import WriteProfile
from tests.patience import in_cpu_s
from tests.rules.checked import findings, told
from tests.rules.places import PLACES, set_at, wrong_file

HEAD = "pipeline: qwen3_tts\nasync_chunk: false\n"

LEVELS = {
    # text below the head: (line, column, message, help)
    "asynch_chunk: true\n": (
        3, 1, "unknown key `asynch_chunk` in the profile", "Did you mean `async_chunk`?",
    ),
    "stages:\n  - stage_id: 0\n    max_num_seq: 8\n": (
        5, 5, "unknown key `max_num_seq` in stage 0", "Did you mean `max_num_seqs`?",
    ),
    "stages:\n  - {stage_id: 0, engine_args: {enforce_eagr: true}}\n": (
        4, 33, "unknown key `enforce_eagr` in `engine_args` of stage 0", "Did you mean `enforce_eager`?",
    ),
    "stages:\n  - {stage_id: 0, engine_extras: {enforce_egaer: true}}\n": (
        4, 35, "unknown key `enforce_egaer` in `engine_extras` of stage 0", "Did you mean `enforce_eager`?",
    ),
    "stages:\n  - {stage_id: 1, runtime: {device: '0'}}\n": (
        4, 29, "unknown key `device` in `runtime` of stage 1", "Did you mean `devices`?",
    ),
    "stages:\n  - {stage_id: 0, default_sampling_params: {temprature: 1.0}}\n": (
        4, 45, "unknown key `temprature` in `default_sampling_params` of stage 0", "Did you mean `temperature`?",
    ),
    "stages:\n  - {stage_id: 0, compilation_config: {cudagraph_capture_size: [1]}}\n": (
        4, 40, "unknown key `cudagraph_capture_size` in `compilation_config` of stage 0",
        "Did you mean `cudagraph_capture_sizes`?",
    ),
    "stages:\n  - {stage_id: 0, compilation_config: {pass_config: {fuse_norm_quants: true}}}\n": (
        4, 54, "unknown key `fuse_norm_quants` in `pass_config` of stage 0", "Did you mean `fuse_norm_quant`?",
    ),
    "connectors:\n  shm:\n    nam: SharedMemoryConnector\nstages:\n"
    "  - {stage_id: 1, input_connectors: {from_stage_0: shm}}\n": (
        5, 5, "unknown key `nam` in connector `shm`", "Did you mean `name`?",
    ),
    "platforms:\n  npu:\n    model_runer: v1\n": (
        5, 5, "unknown key `model_runer` in the npu block", "Did you mean `model_runner`?",
    ),
    "platforms:\n  npu:\n    stages:\n      - stage_id: 0\n        max_num_sqs: 1\n": (
        7, 9, "unknown key `max_num_sqs` in stage 0", "Did you mean `max_num_seqs`?",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), LEVELS.items())
def test_at_every_level(profile_file: WriteProfile, text: str, expected: tuple[int, int, str, str]) -> None:
    (found,) = findings(profile_file(HEAD + text), "OC101")
    assert (found.line, found.column, found.message, found.help) == expected


MISPLACED = {
    # text below the head: help
    "devices: '0'\n": "`devices` is a setting of a stage: put it under the stage in `stages:`.",
    "max_model_len: 8\n": "`max_model_len` is a setting of a stage: put it under the stage in `stages:`.",
    "stages: [{stage_id: 0, session_mode: duplex}]\n": (
        "`session_mode` is a setting of the whole profile: put it at the top level."
    ),
    "stages: [{stage_id: 0, scheduler_cls: x}]\n": (
        "`scheduler_cls` belongs to the pipeline's topology; a profile cannot change it."
    ),
    "stages: [{stage_id: 0, temperature: 0.5}]\n": (
        "`temperature` is a setting of `default_sampling_params`: put it there."
    ),
    "stages: [{stage_id: 0, engine_args: {default_sampling_params: {}}}]\n": (
        "`default_sampling_params` is no engine arg but a setting of the stage itself: put it beside `stage_id`."
    ),
    "stages: [{stage_id: 0, engine_extras: {async_chunk: false}}]\n": (
        "`async_chunk` is no engine arg but a setting of the stage itself: put it beside `stage_id`."
    ),
    "stages: [{stage_id: 0, enable_lora: true}]\n": (
        "vLLM has `enable_lora`, but stages of vLLM-Omni 0.30.0 refuse it at start. "
        "Remove it; `--engine bundled` takes it."
    ),
    "stages: [{stage_id: 0, engine_args: {speculative_config: {method: ngram}}}]\n": (
        "vLLM has `speculative_config`, but stages of vLLM-Omni 0.30.0 refuse it at start. "
        "Remove it; `--engine bundled` takes it."
    ),
    "port: 8000\n": "`port` is no setting of a profile but a flag of the server: `--port`.",
    "stages: [{stage_id: 0, tool_call_parser: hermes}]\n": (
        "`tool_call_parser` is no setting of a profile but a flag of the server: `--tool-call-parser`."
    ),
    "stages: [{stage_id: 0, codec_chunk_frames: 12}]\n": (
        "`codec_chunk_frames` is a setting of a connector: put it under `extra` of one in `connectors:`."
    ),
    "connectors: {shm: {name: SharedMemoryConnector, codec_chunk_frames: 12}}\n": (
        "`codec_chunk_frames` is a setting of the connector's `extra`: put it there."
    ),
    "platforms: {npu: {session_mode: turn}}\n": (
        "`session_mode` is a setting of the whole profile: put it at the top level."
    ),
    "platforms: {npu: {max_num_seqs: 1}}\n": (
        "`max_num_seqs` is a setting of a stage: put it under the stage in `stages:`."
    ),
}


@pytest.mark.parametrize(("text", "help_text"), MISPLACED.items())
def test_a_key_in_the_wrong_block_is_told_where_it_belongs(
    profile_file: WriteProfile, text: str, help_text: str
) -> None:
    (found,) = findings(profile_file(HEAD + text), "OC101")
    assert found.help == help_text


def test_a_key_of_another_kind_of_stage(profile_file: WriteProfile) -> None:
    text = "pipeline: qwen3_omni_moe\nstages:\n  - {stage_id: 0, step_execution: true}\n"
    (found,) = findings(profile_file(text), "OC101")
    assert found.help == "`step_execution` is a setting of diffusion stages; this one is llm_ar."


def test_without_a_near_name_a_short_list_is_given(profile_file: WriteProfile) -> None:
    (found,) = findings(profile_file(HEAD + "stages: [{stage_id: 0, runtime: {zzz: 1}}]\n"), "OC101")
    assert found.help == "It may have: devices, env, num_replicas."


def test_in_a_base_two_levels_up(profile_file: WriteProfile) -> None:
    base = profile_file(HEAD + "\nasync_chunks: 1\n", "base.yaml")
    profile_file("base_config: base.yaml\n", "middle.yaml")
    top = profile_file("base_config: middle.yaml\nsession_modes: turn\n", "top.yaml")
    assert [(found.path, found.line, found.column, found.message) for found in findings(top, "OC101")] == [
        (str(base), 4, 1, "unknown key `async_chunks` in the profile (in profile top.yaml)"),
        (str(top), 2, 1, "unknown key `session_modes` in the profile"),
    ]


def test_in_a_base_that_is_itself_validated_no_profile_is_named(profile_file: WriteProfile) -> None:
    base = profile_file(HEAD + "async_chunks: 1\n", "base.yaml")
    top = profile_file("base_config: base.yaml\n", "top.yaml")
    found = omnicfg.validate([top, base])
    assert [(one.path, one.message) for one in found] == [(str(base), "unknown key `async_chunks` in the profile")]


def test_in_an_overlay(profile_file: WriteProfile) -> None:
    overlay = profile_file("stages:\n  - stage_id: 1\n    max_nm_seqs: 4\n", "overlay.yaml")
    (found,) = findings(profile_file(HEAD), "OC101", overlays=[overlay])
    assert (found.path, found.line, found.column, found.stage_id) == (str(overlay), 3, 5, 1)


def test_in_a_setting_of_the_command_line(profile_file: WriteProfile) -> None:
    setting = "stages.0.default_sampling_params.temprature=1.0"
    (found,) = findings(profile_file(HEAD), "OC101", overrides=[setting])
    assert (found.path, found.message, found.help) == (
        f"--set {setting}",
        "unknown key `temprature` in `default_sampling_params` of stage 0",
        "Did you mean `temperature`?",
    )


def test_a_finding_in_a_platform_block_names_the_platform(profile_file: WriteProfile) -> None:
    (found,) = findings(profile_file(HEAD + "platforms: {musa: {model_runer: v1}}\n"), "OC101")
    assert found.platform == "musa"


def test_a_null_field_of_the_stage_schema_reaches_no_engine(profile_file: WriteProfile) -> None:
    text = "pipeline: glm_image\nstages: [{stage_id: 1, max_num_seqs: null}]\n"
    assert told(profile_file(text), "OC101") == []


def test_the_bundled_engine_takes_the_args_of_its_newer_vllm(profile_file: WriteProfile) -> None:
    profile = profile_file(HEAD + "stages: [{stage_id: 0, jit_monitor_mode: warn}]\n")
    assert len(findings(profile, "OC101")) == 1
    assert findings(profile, "OC101", engine="bundled") == []


@pytest.mark.parametrize("key", ["enable_lora", "kv_events_config", "data_parallel_start_rank", "jit_monitor_mode"])
@pytest.mark.parametrize("place", PLACES)
def test_an_engine_arg_that_only_vllm_has_is_no_typo(profile_file: WriteProfile, place: str, key: str) -> None:
    (found,) = (one for one in set_at(place, profile_file, key, "null") if one.code == "OC101")
    assert found.help == (
        f"vLLM has `{key}`, but stages of vLLM-Omni 0.30.0 refuse it at start. Remove it; `--engine bundled` takes it."
    )
    assert found.fix is None


@pytest.mark.parametrize("place", PLACES)
def test_a_misspelt_sampling_parameter_in_every_place_once(profile_file: WriteProfile, place: str) -> None:
    found = set_at(place, profile_file, "default_sampling_params", "{temprature: 1}")
    assert [(one.code, one.help) for one in found] == [("OC101", "Did you mean `temperature`?")]
    assert found[0].path.endswith(wrong_file(place))


def test_parallel_config_of_each_kind_of_stage(profile_file: WriteProfile) -> None:
    text = "pipeline: glm_image\nasync_chunk: false\nstages:\n"
    text += "  - {stage_id: 0, parallel_config: {ulysses_degree: 2}}\n"
    text += "  - {stage_id: 1, parallel_config: {ulyses_degree: 2}}\n"
    assert told(profile_file(text), "OC101") == [
        (4, 37, "unknown key `ulysses_degree` in `parallel_config` of stage 0"),
        (5, 37, "unknown key `ulyses_degree` in `parallel_config` of stage 1"),
    ]
    hint = "`ulysses_degree` is a setting of diffusion stages; this one is llm_ar."
    assert findings(profile_file(text), "OC101")[0].help == hint


def test_a_shelf_for_anchors(profile_file: WriteProfile) -> None:
    text = "pipeline: qwen3_tts\nasync_chunk: false\nx-common: &common {max_num_seq: 8}\n"
    assert told(profile_file(text + "stages: [{stage_id: 0, max_num_seqs: 8}]\n"), "OC101") == []
    (found,) = findings(profile_file(text + "stages: [{stage_id: 0, <<: *common}]\n"), "OC101")
    assert found.message == "unknown key `max_num_seq` in stage 0"


def test_the_sampling_parameters_of_a_diffusion_stage_and_of_a_pooling_stage(profile_file: WriteProfile) -> None:
    text = "pipeline: glm_image\nasync_chunk: false\nstages:\n"
    text += "  - {stage_id: 0, default_pooling_params: {tsak: embed}}\n"
    text += "  - {stage_id: 1, default_sampling_params: {num_inference_step: 2, extra_args: {anything: 1}}}\n"
    assert told(profile_file(text), "OC101") == [
        (4, 44, "unknown key `tsak` in `default_pooling_params` of stage 0"),
        (5, 45, "unknown key `num_inference_step` in `default_sampling_params` of stage 1"),
    ]


@pytest.mark.parametrize("block", ["diffusion_offload_config", "diffusion_attention_config", "video_output_transport"])
def test_a_diffusion_stages_blocks_have_keys_of_their_own(profile_file: WriteProfile, block: str) -> None:
    text = f"pipeline: dreamzero\nstages:\n  - stage_id: 0\n    {block}: {{nonsense: 1}}\n"
    (found,) = findings(profile_file(text), "OC101")
    assert (found.line, found.message) == (4, f"unknown key `nonsense` in `{block}` of stage 0")


def test_a_field_of_a_nested_config_is_told_where_it_belongs(profile_file: WriteProfile) -> None:
    text = "pipeline: qwen3_tts\nasync_chunk: false\nstages: [{stage_id: 0, cudagraph_capture_sizes: [1]}]\n"
    (found,) = findings(profile_file(text), "OC101")
    assert found.help == "`cudagraph_capture_sizes` is a setting of `compilation_config`: put it there."
    assert found.fix is None


def test_a_file_of_unknown_keys_is_told_at_once(profile_file: WriteProfile) -> None:
    keys = "".join(f"    max_num_seq{number}: 1\n" for number in range(2000))
    profile = profile_file(f"pipeline: qwen3_tts\nasync_chunk: false\nstages:\n  - stage_id: 0\n{keys}")
    found = in_cpu_s(4, lambda: findings(profile, "OC101"))
    assert (len(found), found[0].help) == (2000, "Did you mean `max_num_seqs`?")
    assert found[-1].help == "Remove it; `omnicfg schema` lists the keys."
