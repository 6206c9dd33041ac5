"""What each engine would start for a plan, and what it refuses."""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

import omnicfg
from omnicfg.command_line.parse import parse
from omnicfg.command_line.shell import Word
from omnicfg.engine.front.api_key import KeyFirst
from omnicfg.engine.stop_signals import VARIABLE as STOP_SIGNALS
from omnicfg.errors import UsageError
from omnicfg.serve import engines, media_sources
from omnicfg.serve.engines import bundled, vllm_omni
from omnicfg.serve.launch import Launch, Request
from omnicfg.serve.machine import Machine, Vllm
from omnicfg.tree import Mark
from tests.serve.echo import answer_of

CPU = Machine(Vllm("0.32.0", cpu=True), None, (), ())
FOUR_GPUS = Machine(Vllm("0.32.0", cpu=False), "0.30.0", ("A", "B"), ("4", "5"))


QWEN3: dict[str, Any] = {
    "architectures": ["Qwen3OmniMoeForConditionalGeneration"],
    "thinker_config": {"text_config": {"num_hidden_layers": 48}},
    "talker_config": {"accept_hidden_layer": 18},
}
CHAT = {"method": "POST", "path": "/v1/chat/completions", "headers": []}
ROWS_FLAGS = ("--hf-overrides", "--additional-config", "--kv-transfer-config")


def request(
    profile: str = "tiny_omni",
    platform: str = "cuda",
    model: str = "/model",
    config: dict[str, Any] | None = QWEN3,
    **overrides: Any,
) -> Request:
    keys = {key.replace("__", "."): value for key, value in overrides.items()}
    plan = omnicfg.resolve(profile, platform=platform, overrides=keys)
    return Request(plan, model, "tiny-omni", "127.0.0.1", 8091, config=config)


def option(launch: Launch, name: str) -> str:
    return launch.command[launch.command.index(name) + 1]


def middlewares(launch: Launch) -> list[Any]:
    """What stands before vLLM's application; the last one is the outermost (Starlette's ``add_middleware``)."""
    names = [launch.command[index + 1] for index, word in enumerate(launch.command) if word == "--middleware"]
    return [getattr(importlib.import_module(module), name) for module, _, name in (n.rpartition(".") for n in names)]


def refusals(asked: Request) -> list[str]:
    return [refusal.message for refusal in bundled.refusals(asked)]


def test_engines_are_found_by_their_files() -> None:
    assert {"bundled", "vllm-omni"} <= set(engines.names())
    assert engines.engine("vllm-omni") is vllm_omni


def test_an_unknown_engine_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(UsageError, match="unknown engine `sglang`") as caught:
        engines.engine("sglang")
    assert "bundled, vllm-omni" in str(caught.value.diagnostics[0].help)


class TestBundled:
    def test_it_is_vllms_own_server_in_this_environment(self) -> None:
        launch = bundled.first_stage(request(), CPU)
        assert launch.command[:3] == (sys.executable, "-m", "vllm.entrypoints.openai.api_server")
        assert option(launch, "--model") == "/model"
        assert option(launch, "--served-model-name") == "tiny-omni"
        assert (option(launch, "--host"), option(launch, "--port")) == ("127.0.0.1", "8091")

    def test_the_compiled_engine_args_reach_it(self) -> None:
        launch = bundled.first_stage(request(stages__0__max_num_seqs=3), CPU)
        assert option(launch, "--max-num-seqs") == "3"
        assert "--enable-prefix-caching" in launch.command

    def test_the_answers_usage_shows_the_hits(self) -> None:
        assert "--enable-prompt-tokens-details" in bundled.first_stage(request(), CPU).command

    def test_defaults_without_an_argument_reach_it_through_the_middleware(self) -> None:
        launch = bundled.first_stage(request(), CPU)
        assert json.loads(launch.env["OMNICFG_REQUEST_DEFAULTS"]) == {"max_tokens": 64}
        assert option(launch, "--middleware") == "omnicfg.serve.request_defaults.RequestDefaults"

    def test_vllms_own_transport_between_hosts_is_passed_on_where_no_rows_are_kept(self) -> None:
        transport = {"kv_connector": "NixlConnector", "kv_role": "kv_both"}
        asked = request("qwen3_omni_moe_thinking", stages__0__kv_transfer_config=transport)
        assert json.loads(option(bundled.first_stage(asked, FOUR_GPUS), "--kv-transfer-config")) == transport
        assert refusals(asked) == []

    def test_media_come_from_where_the_plan_says_and_from_nowhere_else(self) -> None:
        launch = bundled.first_stage(request("qwen3_omni_moe"), FOUR_GPUS)
        assert option(launch, "--allowed-media-domains") == media_sources.NOBODY
        assert "omnicfg.serve.media_sources.MediaSources" in launch.command
        assert json.loads(launch.env[media_sources.VARIABLE]) == {"domains": [], "files": False, "text_alone": ""}
        own = bundled.first_stage(request("qwen3_omni_moe", stages__0__allowed_media_domains=["a.test"]), FOUR_GPUS)
        assert option(own, "--allowed-media-domains") == "a.test"
        assert json.loads(own.env[media_sources.VARIABLE])["domains"] == ["a.test"]

    @pytest.mark.parametrize("given", ["option", "environment"])
    def test_the_key_is_asked_for_before_anything_reads_a_body(
        self, given: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked = request()
        if given == "option":
            asked = replace(asked, api_key="sesame")
        else:
            monkeypatch.setenv("VLLM_API_KEY", "sesame")
        launch = bundled.first_stage(asked, CPU)
        for name, value in launch.env.items():
            monkeypatch.setenv(name, value)
        stack = middlewares(launch)
        assert len(stack) == 5, "defaults, media, speech that is not served, what outlasts a stop, the key"
        sent = answer_of(lambda app: reduce(lambda inner, one: one(inner), stack, app), CHAT, b"x" * 100, 3, read=0)
        assert sent[0]["status"] == 401

    def test_a_server_without_a_key_asks_for_none(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("VLLM_API_KEY", "")
        assert KeyFirst not in middlewares(bundled.first_stage(request(), CPU))

    def test_a_plan_without_such_defaults_needs_no_middleware(self) -> None:
        config = {**QWEN3, "talker_config": {"speaker_id": {"somebody": 1}}}
        asked = request(config=config, stages__0__default_sampling_params__max_tokens=None)
        launch = bundled.first_stage(asked, CPU)
        assert "omnicfg.serve.request_defaults.RequestDefaults" not in launch.command

    def test_requests_may_finish_for_as_long_as_the_plan_says(self) -> None:
        assert option(bundled.first_stage(request(), CPU), "--shutdown-timeout") == str(bundled.DRAIN_S)
        own = bundled.first_stage(request(stages__0__shutdown_timeout=99), CPU)
        assert [option(own, "--shutdown-timeout"), own.command.count("--shutdown-timeout")] == ["99", 1]

    def test_on_the_cpu_devices_do_not_count_and_are_not_set(self) -> None:
        launch = bundled.first_stage(request(stages__0__devices="1"), CPU)
        assert "CUDA_VISIBLE_DEVICES" not in launch.env
        assert any("serving on the CPU" in notice for notice in launch.notices)

    def test_the_cpus_cache_is_bounded_where_nobody_has_said_how_large_it_is(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("VLLM_CPU_KVCACHE_SPACE", raising=False)
        free = request(stages__0__kv_cache_memory_bytes=None)
        assert bundled.first_stage(free, CPU).env["VLLM_CPU_KVCACHE_SPACE"] == "1"
        assert "VLLM_CPU_KVCACHE_SPACE" not in bundled.first_stage(request(), CPU).env, "the plan says"
        monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "4")
        assert "VLLM_CPU_KVCACHE_SPACE" not in bundled.first_stage(free, CPU).env, "the user says"

    def test_rows_take_no_core_of_the_cpus_from_what_computes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        name = "VLLM_CPU_NUM_OF_RESERVED_CPU"
        monkeypatch.delenv(name, raising=False)
        rows = request()
        assert bundled.rows_socket(rows) is not None
        assert bundled.first_stage(rows, CPU).env[name] == "1"
        monkeypatch.setenv(name, "3")
        assert name not in bundled.first_stage(rows, CPU).env, "the user says"

    def test_devices_count_among_those_visible_here(self) -> None:
        launch = bundled.first_stage(request("qwen3_omni_moe", stages__0__devices="1"), FOUR_GPUS)
        assert launch.env["CUDA_VISIBLE_DEVICES"] == "5"
        assert "devices count among CUDA_VISIBLE_DEVICES: 1 is 5" in launch.notices

    def test_a_stage_that_names_no_device_sees_what_vllm_would(self) -> None:
        assert "CUDA_VISIBLE_DEVICES" not in bundled.first_stage(request(), FOUR_GPUS).env

    @pytest.mark.parametrize(("runner", "switch"), [("v1", "0"), ("v2", "1")])
    def test_the_plans_model_runner_is_the_one_that_runs(self, runner: str, switch: str) -> None:
        launch = bundled.first_stage(request("qwen3_omni_moe", model_runner=runner), FOUR_GPUS)
        assert launch.env["VLLM_USE_V2_MODEL_RUNNER"] == switch

    def test_a_stages_environment_is_the_servers(self) -> None:
        launch = bundled.first_stage(request(stages__0__env={"VLLM_LOGGING_LEVEL": "DEBUG", "N": 2}), CPU)
        assert (launch.env["VLLM_LOGGING_LEVEL"], launch.env["N"]) == ("DEBUG", "2")

    def test_stages_and_replicas_that_are_not_started_are_named(self) -> None:
        asked = request("qwen2_5_omni", stages__0__num_replicas=2, stages__0__devices="0,1")
        launch = bundled.launch(asked, FOUR_GPUS)
        reason = "the bundled engine has nothing that computes stage 1 (talker) of pipeline qwen2_5_omni"
        assert "only stage 0 is served, text in and text out; not started: 1 (talker), 2 (code2wav)" in launch.notices
        assert f"no speech: {reason}" in launch.notices
        assert "one of 2 replicas of stage 0 is started" in launch.notices
        assert "omnicfg.serve.text_only.TextOnly" in launch.command, "who asks for speech is told"
        assert launch.env["OMNICFG_NO_SPEECH"] == reason

    def test_what_the_profile_asks_for_in_vain_is_named(self) -> None:
        notices = bundled.first_stage(request(stages__0__silence_ban_frames=3), CPU).notices
        assert "without effect, since vLLM 0.32.0 has no such setting: silence_ban_frames" in notices

    def test_what_nobody_asked_for_is_not(self) -> None:
        assert not any("without effect" in notice for notice in bundled.first_stage(request(), CPU).notices)

    @pytest.mark.parametrize("profile", ["qwen3_tts", "aura_omni", "cosyvoice3", "glm_image"])
    def test_a_first_stage_that_does_not_answer_in_text_is_refused(self, profile: str) -> None:
        assert any("does not answer in text" in message for message in refusals(request(profile)))

    def test_duplex_is_refused(self) -> None:
        assert "the bundled engine serves turns, not duplex sessions" in refusals(request("minicpmo_4_5"))

    def test_a_checkpoint_in_a_part_of_the_directory_is_found_there(self, tmp_path: Path) -> None:
        asked = request("audex_thinker_only", model=str(tmp_path))
        assert refusals(asked) == [
            f"stage 0 reads `checkpoint_folder_full` inside the model's directory; `{tmp_path}` has none"
        ]
        (tmp_path / "checkpoint_folder_full").mkdir()
        assert refusals(asked) == []
        launch = bundled.first_stage(asked, FOUR_GPUS)
        assert option(launch, "--model") == option(launch, "--tokenizer") == str(tmp_path / "checkpoint_folder_full")

    def test_devices_other_than_nvidias_are_left_to_vllm_omni(self) -> None:
        found = [problem.message for problem in bundled.problems(request("qwen3_omni_moe", "npu"), FOUR_GPUS)]
        assert "the bundled engine runs on NVIDIA devices and on the CPU, not on npu" in found


class TestRows:
    """The bundled engine keeps hidden states where a later stage of the plan reads them."""

    @pytest.fixture(autouse=True)
    def runtime(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
        return tmp_path / "omnicfg/127.0.0.1-8091"

    def test_they_are_switched_on_for_a_plan_whose_later_stage_reads_them(self, runtime: Path) -> None:
        launch = bundled.first_stage(request("qwen3_omni_moe"), FOUR_GPUS)
        overrides, additional, transfer = (json.loads(option(launch, flag)) for flag in ROWS_FLAGS)
        assert overrides["architectures"] == ["PayloadQwen3OmniMoeForConditionalGeneration"]
        assert additional["payload_rows"] == {"layers": [18], "final": False, "shards": 1}, "what the checkpoint says"
        assert transfer["kv_connector_extra_config"] == {
            "socket": str(runtime / "rows.sock"),
            "measures": {"grid": ["image_grid_thw", "video_grid_thw"], "seconds": ["second_per_grid_ts"]},
        }, "what the record says: the rows, and what goes with them of media"
        assert launch.directory == runtime
        assert not runtime.exists(), "nothing is made before it is started"
        assert (
            f"hidden states (layer 18) of requests that ask for them are at {runtime}/rows.sock"
            in bundled.first_stage(request("qwen3_omni_moe"), FOUR_GPUS).notices
        )

    def test_what_the_plan_says_itself_stays(self) -> None:
        asked = request("qwen3_omni_moe", stages__0__hf_overrides={"rope_theta": 5.0})
        launch = bundled.first_stage(asked, FOUR_GPUS)
        assert json.loads(option(launch, "--hf-overrides"))["rope_theta"] == 5.0
        assert launch.command.count("--hf-overrides") == 1

    @pytest.mark.parametrize("profile", ["qwen3_omni_moe_thinking", "audex_thinker_only"])
    def test_a_plan_of_one_stage_has_none(self, profile: str) -> None:
        launch = bundled.first_stage(request(profile), CPU)
        assert not set(ROWS_FLAGS) & set(launch.command)
        assert launch.directory is None
        assert bundled.rows_socket(request(profile)) is None

    @pytest.mark.parametrize(
        ("listed", "loaded"), [(None, None), ("a", "a,omnicfg"), ("a,omnicfg", None), ("", "omnicfg")]
    )
    @pytest.mark.parametrize("profile", ["qwen3_omni_moe", "audex_thinker_only"])
    def test_a_list_of_plugins_gets_ours(
        self, profile: str, listed: str | None, loaded: str | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Which keeps rows for some plans, and leaves stop signals to the engine for all."""
        monkeypatch.delenv("VLLM_PLUGINS", raising=False)
        own: dict[str, Any] = {} if listed is None else {"stages__0__env": {"VLLM_PLUGINS": listed}}
        env = bundled.first_stage(request(profile, **own), FOUR_GPUS).env
        assert (env.get("VLLM_PLUGINS"), env[STOP_SIGNALS]) == (loaded or listed, "1")

    def test_without_its_plugin_the_engine_is_not_started(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: ())
        found = [problem.message for problem in bundled.problems(request("qwen3_omni_moe"), FOUR_GPUS)]
        assert any("vLLM finds no plugin of it" in message for message in found)
        alone = bundled.problems(request("audex_thinker_only"), FOUR_GPUS)
        assert not any("plugin" in problem.message for problem in alone)

    def test_every_replica_offers_its_own(self, runtime: Path) -> None:
        asked = request("qwen3_omni_moe", stages__0__data_parallel_size=2, stages__0__devices="0,1")
        [notice] = [text for text in bundled.first_stage(asked, FOUR_GPUS).notices if "hidden states" in text]
        assert notice.endswith(f"are at {runtime}/rows.sock.0, {runtime}/rows.sock.1")

    def test_what_cannot_be_kept_is_refused_in_the_words_of_the_rule(self) -> None:
        asked = request("qwen3_omni_moe", config={**QWEN3, "sliding_window": 4096, "thinker_config": None})
        [refusal] = bundled.refusals(asked)
        assert refusal.message.startswith(
            "a later stage reads hidden states of stage 0 (thinker), which the bundled engine cannot keep here: "
            "the model has sliding-window layers"
        )
        assert "serve with vLLM-Omni (`--engine vllm-omni`)" in str(refusal.help)

    def test_a_model_whose_config_cannot_be_had_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HF_HUB_OFFLINE", "0")
        [refusal] = refusals(request("qwen3_omni_moe", model="Some/Model", config=None))
        assert "the config.json of `Some/Model` cannot be had" in refusal

    def test_a_model_that_is_not_there_is_left_to_the_check_of_models(self) -> None:
        asked = request("qwen3_omni_moe", model="nowhere", config=None)
        assert refusals(asked) == []
        launch = bundled.first_stage(asked, FOUR_GPUS)
        assert not set(ROWS_FLAGS) & set(launch.command)
        assert launch.notices[-1].startswith("which hidden states a later stage reads is told by config.json")

    @pytest.mark.parametrize("stage", [0, 1])
    @pytest.mark.parametrize(("name", "value"), [("A=B", "c"), ("", "c"), ("A", "b\0c"), ("A\0", "b")])
    def test_a_variable_that_no_process_can_have_is_refused(self, stage: int, name: str, value: str) -> None:
        asked = request(config={**QWEN3, "talker_config": {"speaker_id": {"somebody": 1}}})
        place = f"stages.{stage}.env"
        plan = omnicfg.resolve("tiny_omni", platform="cuda", overrides={place: {"FINE": "a=b", name: value}})
        [refusal] = refusals(replace(asked, plan=plan))
        assert refusal == f"no process can have the variable {name!r} of stage {stage}'s `env`"

    def test_a_socket_with_too_long_a_name_is_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        deep = tmp_path / ("x" * 100)
        deep.mkdir()
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(deep))
        assert any("longer than a socket's 107 bytes" in refusal for refusal in refusals(request("qwen3_omni_moe")))


class TestVllmOmni:
    def test_it_serves_one_flat_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        launch = vllm_omni.launch(request("minicpmo_4_5_turn", "npu"), FOUR_GPUS)
        [path] = launch.files
        assert launch.command == (
            *(sys.executable, "-m", "vllm.entrypoints.cli.main"),
            *("serve", "/model", "--omni", "--deploy-config", str(path)),
            *("--host", "127.0.0.1", "--port", "8091"),
        )
        assert path.is_relative_to(tmp_path)
        assert not path.exists(), "nothing is written before it is started"
        launch.write_files()
        again = omnicfg.resolve(path, platform="npu")
        assert again.to_dict()["stages"] == request("minicpmo_4_5_turn", "npu").plan.to_dict()["stages"]

    def test_a_key_is_asked_for_before_anything_else(self, monkeypatch: pytest.MonkeyPatch) -> None:
        check = ("--middleware", "omnicfg.engine.front.api_key.KeyFirst")
        keyed = vllm_omni.launch(replace(request("qwen3_omni_moe"), api_key="sesame"), FOUR_GPUS)
        assert (keyed.command[-2:], keyed.env) == (check, {"VLLM_API_KEY": "sesame"})
        words = keyed.command[keyed.command.index("serve") + 1 :]
        line = parse([Word(word, Mark("--command", 1, place)) for place, word in enumerate(words, 1)])
        assert (line.findings, "middleware" in line.given) == ([], True), "the release knows the option"
        monkeypatch.setenv("VLLM_API_KEY", "sesame")
        assert vllm_omni.launch(request("qwen3_omni_moe"), FOUR_GPUS).command[-2:] == check
        monkeypatch.delenv("VLLM_API_KEY")
        assert check[0] not in vllm_omni.launch(request("qwen3_omni_moe"), FOUR_GPUS).command

    def test_a_pipeline_of_our_own_is_refused(self) -> None:
        assert [refusal.message for refusal in vllm_omni.refusals(request())] == ["vLLM-Omni has no pipeline tiny_omni"]
        assert list(vllm_omni.refusals(request("qwen3_omni_moe"))) == []

    def test_nobody_is_left_to_start_it_again(self) -> None:
        asked = replace(request("qwen3_omni_moe"), restarts=3)
        assert ["takes this process's place" in refusal.message for refusal in vllm_omni.refusals(asked)] == [True]
        assert refusals(asked) == []

    @pytest.mark.parametrize(
        ("installed", "message"),
        [
            (None, "vLLM-Omni is not installed in this environment"),
            ("0.29.0", "vLLM-Omni 0.29.0 is installed; profiles are compiled for 0.30.0"),
        ],
    )
    def test_it_has_to_be_installed_in_the_right_version(self, installed: str | None, message: str) -> None:
        [problem] = vllm_omni.problems(request(), Machine(None, installed, (), ()))
        assert problem.message == message
        assert "pip install vllm==0.30.0 vllm-omni==0.30.0" in str(problem.help)
        assert list(vllm_omni.problems(request(), FOUR_GPUS)) == []

    def test_it_takes_this_processs_place(self, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
        import subprocess

        script = tmp_path / "vllm"
        script.write_text('#!/bin/sh\necho "$$ $OMNICFG_TEST $*"\nexit 7\n')
        script.chmod(0o755)
        program = (
            "import sys; from omnicfg.serve.engines import vllm_omni; from omnicfg.serve.launch import Launch\n"
            "vllm_omni.start(Launch((sys.argv[1], 'serve', 'M'), {'OMNICFG_TEST': 'on'}), None, print, print)"
        )
        process = subprocess.Popen([sys.executable, "-c", program, str(script)], stdout=subprocess.PIPE, text=True)
        output = process.communicate()[0]
        assert process.returncode == 7
        assert output.splitlines()[-1] == f"{process.pid} on serve M"


def test_a_launch_can_be_pasted_into_a_shell_and_hides_keys(tmp_path: Path) -> None:
    launch = Launch(("run", "a b"), {"VLLM_API_KEY": "secret", "X": "1 2"}, {tmp_path / "f.yaml": "a: 1\nb: 2\n"})
    assert launch.shell() == (f"# {tmp_path}/f.yaml\n#   a: 1\n#   b: 2\nVLLM_API_KEY='***' X='1 2' run 'a b'\n")
