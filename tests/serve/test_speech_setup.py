"""What is started for a plan that speaks: vLLM on a socket, a worker for each later stage, the front before them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import omnicfg
from omnicfg.engine.front.setup import Setup
from omnicfg.models import tiny_omni
from omnicfg.serve import text_only
from omnicfg.serve.engines import bundled
from omnicfg.serve.launch import Launch, Request
from omnicfg.serve.machine import Machine, Vllm
from omnicfg.serve.speech import silent_reason

CPU = Machine(Vllm("0.32.0", cpu=True), None, (), ())
TWO_GPUS = Machine(Vllm("0.32.0", cpu=False), None, ("A", "B"), ("4", "5"))


def request(model: Path, profile: str = "tiny_omni", **overrides: Any) -> Request:
    keys = {key.replace("__", "."): value for key, value in overrides.items()}
    plan = omnicfg.resolve(profile, overrides=keys)
    return Request(plan, str(model), "tiny", "127.0.0.1", 8091, api_key="sesame", config=tiny_omni.config())


def setup_of(launch: Launch) -> Setup:
    launch.write_files()
    return Setup.read(Path(launch.command[-1]))


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    return setup_of(bundled.launch(request(tmp_path), CPU))


def test_rows_go_from_stage_to_stage(setup: Setup) -> None:
    talker, code2wav = setup.jobs
    assert [job.kind for job in setup.jobs] == ["codec-talker", "code2wav"]
    assert talker.rows_in.endswith("rows.sock")
    assert code2wav.rows_in == talker.rows_out
    assert {job.control for job in setup.jobs} == {setup.control}


def test_vllm_listens_on_a_socket_that_only_the_front_knows(setup: Setup) -> None:
    assert setup.command[setup.command.index("--uds") + 1] == setup.thinker
    assert not {"--host", "--port"} & set(setup.command)
    assert (setup.host, setup.port) == ("127.0.0.1", 8091)


def test_the_key_is_in_the_environment_and_in_no_file(tmp_path: Path) -> None:
    launch = bundled.launch(request(tmp_path), CPU)
    assert launch.env == {"VLLM_API_KEY": "sesame"}
    assert "sesame" not in "".join(launch.files.values()) + launch.shell()


def test_voices_and_the_default_are_the_models(setup: Setup) -> None:
    assert setup.voices == tuple(tiny_omni.SPEAKERS)
    assert setup.default_voice == "ethan"


def test_the_plan_says_how_many_frames_go_together(tmp_path: Path) -> None:
    where = "connectors__in_shared_memory__extra__"
    frames: dict[str, Any] = {f"{where}codec_chunk_frames": 10, f"{where}initial_codec_chunk_frames": 2}
    asked = request(tmp_path, **frames)
    options = setup_of(bundled.launch(asked, CPU)).jobs[1].options
    assert (options.first_chunk, options.chunk, options.window) == (2, 10, 40)


def test_no_frames_in_a_first_chunk_of_its_own_are_as_many_as_in_any(tmp_path: Path) -> None:
    asked = request(tmp_path, connectors__in_shared_memory__extra__initial_codec_chunk_frames=0)
    options = setup_of(bundled.launch(asked, CPU)).jobs[1].options
    assert (options.first_chunk, options.chunk) == (25, 25)


@pytest.mark.parametrize(
    ("key", "frames", "least"),
    [("codec_chunk_frames", 0, 1), ("initial_codec_chunk_frames", -1, 0), ("codec_left_context_frames", -1, 0)],
)
def test_chunks_that_cannot_be_are_the_reason_for_silence(tmp_path: Path, key: str, frames: int, least: int) -> None:
    """With none in a chunk a talker would be given credit for no frame, and its request would never end."""
    given: dict[str, Any] = {f"connectors__in_shared_memory__extra__{key}": frames}
    asked = request(tmp_path, **given)
    assert silent_reason(asked) == f"{key} is {frames}, and the last stage needs {least} or more"


def test_the_plan_says_how_stages_sample_and_how_many_they_serve(tmp_path: Path) -> None:
    asked = request(tmp_path, stages__1__max_num_seqs=3, stages__1__default_sampling_params__temperature=0.9)
    options = setup_of(bundled.launch(asked, CPU)).jobs[0].options
    assert options.limit == 3
    assert options.sampling["temperature"] == 0.9
    assert options.async_chunk
    assert options.engine_args == {"enforce_eager": True, "gpu_memory_utilization": 0.1}


def test_each_stage_sees_its_own_devices_then_the_one_whose_rows_it_reads(tmp_path: Path) -> None:
    setup = setup_of(bundled.launch(request(tmp_path, "qwen3_omni_moe"), TWO_GPUS))
    assert [one["CUDA_VISIBLE_DEVICES"] for one in setup.environments] == ["5,4", "5"]
    assert setup.thinker_env["CUDA_VISIBLE_DEVICES"] == "4"
    assert {job.options.device for job in setup.jobs} == {"cuda"}


def test_a_first_stage_that_names_no_device_is_told_with_the_one_that_cuda_gives_it(tmp_path: Path) -> None:
    setup = setup_of(bundled.launch(request(tmp_path, stages__1__devices="1", stages__2__devices="1"), TWO_GPUS))
    assert setup.thinker_env["CUDA_VISIBLE_DEVICES"] == "4"
    assert [one["CUDA_VISIBLE_DEVICES"] for one in setup.environments] == ["5,4", "5"]


def test_a_stage_that_nothing_computes_is_the_reason_for_silence(tmp_path: Path) -> None:
    reason = silent_reason(request(tmp_path, "minicpmo_4_5_turn"))
    assert reason == "the bundled engine has nothing that computes stage 1 (tts) of pipeline minicpmo_4_5"
    launch = bundled.launch(request(tmp_path, "minicpmo_4_5_turn"), CPU)
    assert launch.env[text_only.VARIABLE] == reason, "which the middleware tells who asks for audio"
    assert f"{text_only.TextOnly.__module__}.{text_only.TextOnly.__name__}" in launch.command
    assert "--kv-transfer-config" in launch.command, "its Thinker keeps the rows that the missing stage would read"


def test_a_dtype_that_no_stage_computes_in_is_the_reason_for_silence(tmp_path: Path) -> None:
    known = "bfloat16, float, float16, float32, half"
    asked = request(tmp_path, stages__1__dtype="int4")
    assert silent_reason(asked) == f'stage 1 (talker): dtype: "int4" is not known; set dtype to one of {known}'
    asked = replace(request(tmp_path, "qwen3_omni_moe"), config={"dtype": "int4"})
    assert str(silent_reason(asked)).startswith('stage 1 (talker): config.json: dtype: "int4" is not known')


def test_a_connector_of_several_hosts_is_never_left_out_in_silence(tmp_path: Path) -> None:
    asked = request(tmp_path, connectors__in_shared_memory__name="MooncakeTransferEngineConnector")
    reason = str(silent_reason(asked))
    assert reason.startswith("stage 1 (talker) is joined by `in_shared_memory`, a MooncakeTransferEngineConnector")
    assert reason.endswith("for several hosts use --engine vllm-omni")
    launch = bundled.launch(asked, CPU)
    assert launch.env["OMNICFG_NO_SPEECH"] == reason
    assert f"no speech: {reason}" in launch.notices


def test_a_plan_without_speech_has_no_reason_for_silence(tmp_path: Path) -> None:
    assert silent_reason(request(tmp_path, "qwen3_omni_moe_thinking")) is None


def test_several_replicas_of_the_first_stage_are_silent(tmp_path: Path) -> None:
    assert "several replicas" in str(silent_reason(request(tmp_path, stages__0__data_parallel_size=2)))


def test_a_first_stage_by_itself_is_served_in_silence(tmp_path: Path) -> None:
    alone = replace(request(tmp_path), config={"architectures": ["Qwen3MoeForCausalLM"]})
    assert "has no talker_config.speaker_id" in str(silent_reason(alone))


def test_a_later_stage_whose_device_is_missing_keeps_the_server_from_starting(tmp_path: Path) -> None:
    one_gpu = Machine(Vllm("0.32.0", cpu=False), None, ("NVIDIA H200",), ("0",))
    told = [one.message for one in bundled.problems(request(tmp_path, "qwen3_omni_moe"), one_gpu)]
    assert "stage 1 asks for device 1; visible here: 0 (NVIDIA H200)" in told
    assert "stage 2 asks for device 1; visible here: 0 (NVIDIA H200)" in told
