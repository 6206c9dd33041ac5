"""``resolve --command`` and ``migrate --command`` as they are typed."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from omnicfg import validate
from tests.commands.conftest import Run, run
from tests.conftest import WriteProfile
from tests.migrate import files

__all__ = ["run"]

PROFILE = """\
pipeline: qwen3_tts
stages:
  - {stage_id: 0, devices: "0", gpu_memory_utilization: 0.3, max_num_seqs: 8}
  - {stage_id: 1, devices: "0", gpu_memory_utilization: 0.2}
"""


@pytest.fixture
def serve(profile_file: WriteProfile) -> str:
    """The beginning of a command on a profile."""
    return f"vllm serve Qwen/Qwen3-TTS --omni --deploy-config {profile_file(PROFILE)}"


def test_flags_come_out_as_the_plan_has_them_with_their_own_words_as_origin(run: Run, serve: str) -> None:
    result = run("resolve", "--command", f"{serve} --max-num-seqs 16", "--format", "json", "--explain")
    assert result.code == 0
    seqs = [stage["engine_args"]["max_num_seqs"] for stage in result.data["stages"]]
    assert [each["value"] for each in seqs] == [16, 16]
    assert seqs[0]["origin"]["file"] == "--max-num-seqs 16"
    assert seqs[0]["beaten"][0]["value"] == 8


@pytest.mark.parametrize(
    ("flags", "code", "name", "message"),
    [
        ("--gpu-memory-utilization 0.4", 0, "OC855", "is set on stages 0, 1, over 0.3 of stage 0, 0.2 of stage 1"),
        ("--batch-timeout 3", 0, "OC854", "nothing reads `--batch-timeout`"),
        ("""--stage-overrides '{"5": {"devices": "1"}}'""", 0, "OC854", "has no stage 5"),
        ("""--stage-overrides '{"0": {"tokenizer": "x"}}'""", 0, "OC854", "`tokenizer` of stage 0 is dropped"),
        ("--vae-use-tiling", 1, "OC853", "no stage of pipeline qwen3_tts takes `--vae-use-tiling`"),
        ("--max-num-sequences 3", 1, "OC851", "has no flag `--max-num-sequences`"),
        ("--stage-configs-path old.yaml", 1, "OC851", "`--stage-configs-path` is no longer there"),
        ("--max-model-len lots", 1, "OC852", "`--max-model-len` is `lots`; it has to be a whole number"),
        ("--max-num-seqs", 1, "OC852", "`--max-num-seqs` needs a value"),
        ("--port $PORT", 0, "OC856", "nothing here tells what `$PORT` is"),
    ],
)
def test_what_is_wrong_with_a_flag_is_told_where_it_stands(
    run: Run, serve: str, flags: str, code: int, name: str, message: str
) -> None:
    result = run("resolve", "--command", f"{serve} {flags}")
    assert result.code == code
    assert f"[{name}]" in result.err
    assert message in result.err
    inside = flags.find('{"') + 3 if name == "OC854" and "{" in flags else 0
    key = flags.find("tokenizer") + 1 if "tokenizer" in flags else inside
    assert f"--command:1:{len(serve) + 1 + (key or 1)}\n" in result.err or name in ("OC856", "OC852")


def test_the_profile_that_comes_out_is_validated_too(run: Run, serve: str) -> None:
    result = run("resolve", "--command", f"{serve} --gpu-memory-utilization 0.8")
    assert "is asked for 0.8 (stage 0) + 0.8 (stage 1) = 1.6" in result.err
    assert result.code == 1


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ('{"0": {"max_num_seqs": "8"}}', "OC103"),
        ('{"0": {"devices": 0}}', "OC102"),
        ('{"0": {"compilation_config": {"cudagraph_mod": "FULL"}}}', "OC101"),
        ('{"1": {"max_num_seqs": 0}}', "OC105"),
        ('{"1": {"gpu_memory_utilization": 0.9}}', "OC601"),
        ('{"0": {"tensor_parallel_size": 2}}', "OC602"),
        ('{"0": {"enable_prefix_caching": true}}', "OC501"),
        ('{"0": {"numa_bind_nodes": [0]}}', "OC709"),
        ('{"0": {"num_replicas": "two"}}', "OC021"),
    ],
)
def test_an_override_of_a_stage_is_checked_like_the_same_setting_and_told_where_the_command_has_it(
    run: Run, serve: str, tmp_path: Path, settings: str, code: str
) -> None:
    script = tmp_path / "serve.sh"
    script.write_text(f"#!/bin/sh\n{serve} \\\n  --stage-overrides '{settings}'\n", encoding="utf-8")
    told = run("resolve", "--command-from", script).err.split("\n\n")
    found = [block for block in told if f"[{code}]" in block]
    assert len(found) == 1
    line = f"  --stage-overrides '{settings}'"
    [[key, *_]] = json.loads(settings).values()
    assert f"--> {script}:3:{line.index(key) + 1}\n" in found[0]
    assert f" 3 | {line}\n   | {' ' * line.index(key)}{'^' * len(key)}\n" in f"{found[0]}\n"

    given = {
        f"stages.{stage}.{key}": value for stage, keys in json.loads(settings).items() for key, value in keys.items()
    }
    messages = [each.message for each in validate(tmp_path / "profile.yaml", platform="cuda", overrides=given)]
    assert any(f"[{code}] " in block and message in block for block in found for message in messages)


@pytest.mark.parametrize(
    ("flag", "is_found"),
    [
        ("""--stage-overrides '{"0": {"devices": "0"},\n "1": {"max_num_seqs": 0}}'""", True),
        ("""--stage-overrides='{"1": {"max_num_seqs": 0}}'""", True),
        (r'--stage-overrides "{\"1\": {\"max_num_seqs\": 0}}"', True),
        (r"--stage-overrides {\"1\":{\"max_num_seqs\":0}}", True),
        ("""--stage-overrides '{"1": {'\\\n'"max'_num_'seqs": 0}}'""", True),
        (r'--stage-overrides "{\"1\": {\"max_num_seqs\": $NONE}}"', True),
        (r'--stage-overrides "{\"$ONE\": {\"max_num_seqs\": 0}}"', False),
        ("--stage-overrides $JSON", False),
    ],
)
def test_a_key_of_json_is_found_in_whatever_quotes(
    run: Run, serve: str, tmp_path: Path, flag: str, is_found: bool
) -> None:
    """What is behind a variable is not: its value stands elsewhere."""
    script = tmp_path / "serve.sh"
    start = f"""ONE=1 NONE=0 JSON='{{"1":{{"max_num_seqs":0}}}}'\n{serve} """
    script.write_text(f"{start}{flag}\n", encoding="utf-8")
    told = run("resolve", "--command-from", script).err
    before = start + (flag[: flag.index("max")] if is_found else "")
    line = before.count("\n") + 1
    assert "`max_num_seqs` in stage 1 is 0" in told
    assert f"--> {script}:{line}:{len(before.splitlines()[-1]) + 1}\n" in told


@pytest.mark.parametrize(
    ("flags", "message", "column"),
    [
        ("""--compilation-config '{"mode": 3, "cudagraph_mod": 3}'""", "JSON without `cudagraph_mod`", 36),
        ("""--stage-overrides '{"0": {"max_num_seqs": 8 "devices": 0}}'""", "it has to be JSON", 45),
        ("""--limit-mm-per-prompt '{"image": 1, "image": 2}'""", "has `image` more than once", 38),
        ("""--stage-overrides '{"0": {"a": {"b": 1}, "a": {"b": 2}}}'""", "has `a` more than once", 43),
    ],
)
def test_what_json_lacks_is_told_where_it_lacks_it(run: Run, serve: str, flags: str, message: str, column: int) -> None:
    [told] = [block for block in run("resolve", "--command", f"{serve} {flags}").err.split("\n\n") if message in block]
    assert f"--> --command:1:{len(serve) + 1 + column}" in told


@pytest.mark.parametrize(
    ("flags", "help"),
    [
        ("--enable-prefix-caching", 'Give `"enable_prefix_caching": false` for stage 0 in `--stage-overrides`.'),
        ("""--stage-overrides '{"0": {"devices": 0}}'""", 'Write `"devices": "0"`.'),
    ],
)
def test_what_to_do_about_a_flag_is_said_in_flags(run: Run, serve: str, flags: str, help: str) -> None:
    told = run("resolve", "--command", f"{serve} {flags}").err
    assert f"= help: {help}" in told
    assert "--set" not in told


def test_chunks_that_no_stage_can_hand_on_are_told_of_the_flag(run: Run, profile_file: WriteProfile) -> None:
    profile = profile_file("pipeline: bagel\nasync_chunk: false\nstages:\n  - stage_id: 0\n  - stage_id: 1\n")
    result = run("resolve", "--command", f"vllm serve m --omni --deploy-config {profile} --async-chunk")
    assert "--> --command:1:" in result.err
    assert "Give `--no-async-chunk`." in result.err


def test_what_a_flag_of_all_stages_replaces_is_told_once(run: Run, profile_file: WriteProfile) -> None:
    profile = profile_file(PROFILE.replace("max_num_seqs: 8", "dtype: float32"))
    told = run("resolve", "--command", f"vllm serve m --omni --deploy-config {profile} --dtype bfloat16").err
    assert told.count("float32") == 1
    assert "[OC855]" in told


def test_what_the_profile_suppresses_is_not_told(run: Run, profile_file: WriteProfile) -> None:
    crowded = """\
pipeline: qwen3_tts
async_chunk: false
stages:
  - {stage_id: 0, devices: "0", gpu_memory_utilization: 0.8}  # omnicfg: ignore[OC601] because one is started at a time
  - {stage_id: 1, devices: "0", gpu_memory_utilization: 0.8}
"""
    result = run("resolve", "--command", f"vllm serve m --omni --deploy-config {profile_file(crowded)}")
    assert (result.code, result.err) == (0, "")


@pytest.mark.parametrize(
    ("flags", "key"),
    [
        ("""--stage-overrides '{"0": {"max_num_seqs": 4}, "0": {"max_model_len": 512}}'""", "0"),
        ("""--limit-mm-per-prompt '{"image": 1, "image": 2}'""", "image"),
    ],
)
def test_a_key_that_json_has_twice_is_told(run: Run, serve: str, flags: str, key: str) -> None:
    result = run("resolve", "--command", f"{serve} {flags}")
    assert result.code == 0
    assert (
        f"`{flags.split(maxsplit=1)[0]}` has `{key}` more than once in one object; only the last one counts"
        in result.err
    )


@pytest.mark.parametrize(
    "flags",
    [
        """--stage-overrides '{"0": {"env": {"HF_TOKEN": "hunter2", "A": true}}}'""",
        """--hf-overrides '{"hf_token": "hunter2"}' --num-gpus 1""",
        """--stage-overrides '{"0": {"env": {"HF_TOKEN": "hunter2"}}}' --max-num-seqs $SEQS""",
    ],
)
def test_credentials_within_json_are_not_printed(run: Run, serve: str, flags: str) -> None:
    for words in (["resolve"], ["resolve", "--explain"], ["resolve", "--explain", "--format", "json"]):
        result = run(*words, "--command", f"{serve} {flags}")
        assert "hunter2" not in result.out + result.err
    assert "hunter2" not in run("migrate", "--command", f"{serve} {flags}").err


@pytest.mark.parametrize(
    ("setting", "flags"),
    [
        ("hf_token: hunter2", "--hf-token x"),
        ("model_loader_extra_config: {aws_secret: hunter2}", """--model-loader-extra-config '{"k": "v"}'"""),
    ],
)
def test_a_credential_that_a_flag_replaces_is_not_printed(
    run: Run, profile_file: WriteProfile, setting: str, flags: str
) -> None:
    profile = profile_file(f"pipeline: qwen3_tts\nstages:\n  - {{stage_id: 0, {setting}}}\n")
    for command in ("resolve", "migrate"):
        told = run(command, "--command", f"vllm serve m --omni --deploy-config {profile} {flags}").err
        assert "is set on stages 0, 1, over " in told
        assert "hunter2" not in told


def test_without_a_deploy_config_the_models_own_profile_is_meant(run: Run) -> None:
    result = run("resolve", "--command", "vllm serve Qwen/Qwen3-TTS-12Hz --omni", "--format", "json")
    assert result.data["profile"] == "qwen3_tts.yaml"
    named = run("resolve", "qwen3_omni_moe", "--command", "vllm serve a/model --omni", "--format", "json")
    assert named.data["pipeline"] == "qwen3_omni_moe"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--command", "vllm serve a/model --omni"], "nothing says which profile"),
        (["--command", "echo"], "starts no server"),
        (["--command", "vllm serve m --port '1"], "a quote of `--command` is never closed: the one in column 21"),
        (["--command", 'vllm serve "m --omni'], "a quote of `--command` is never closed: the one in column 12"),
        (["--command", "vllm serve m --omni", "--command-from", "x"], "both give a command"),
        (["--command-from", "missing.sh"], "cannot be read"),
        (["qwen3_tts", "--command", "vllm serve m --omni --deploy-config x.yaml"], "and PROFILE another"),
        (["--command", "vllm serve a/model --omni"], "= help: Name the profile (PROFILE), or pass `--pipeline KEY`."),
        (["--command", "vllm serve m --omni --deploy-config missing.yaml"], "no profile `missing.yaml`"),
        (["--command", "vllm serve m --omni", "--pipeline", "bagel"], "own default profile of pipeline bagel"),
        ([], "PROFILE is missing"),
    ],
)
def test_commands_that_cannot_be_read(run: Run, words: list[str], message: str) -> None:
    result = run("resolve", *words)
    assert result.code == 2
    assert message in result.err


@pytest.mark.parametrize("flag", ["--api-key", "--hf-token"])
def test_credentials_are_not_printed(run: Run, serve: str, flag: str, tmp_path: Path) -> None:
    script = tmp_path / "serve.sh"
    script.write_text(f"{serve} {flag} hunter2 --max-num-seqs lots --batch-timeout 1\n", encoding="utf-8")
    for words in (["resolve"], ["resolve", "--explain"], ["migrate"], ["migrate", "--format", "json"]):
        result = run(*words, "--command-from", script)
        assert result.code in (0, 1)
        assert "hunter2" not in result.err
        assert "hunter2" not in result.out or words[0] == "migrate"  # whose output the profile is


def test_without_omni_no_profile_is_read(run: Run) -> None:
    result = run("resolve", "qwen3_tts", "--command", "vllm serve")
    assert "without `--omni`" in result.err
    assert "needs a model" in result.err


# ------------------------------------------------------------------------------------------------- migrate --command
def test_flags_become_an_overlay_and_the_shortest_command(run: Run, serve: str, tmp_path: Path) -> None:
    command = f"""{serve} --port 9000 --max-num-seqs 8 --enforce-eager --batch-timeout 3
        --stage-overrides '{{"1": {{"max_num_seqs": 2}}}}'""".replace("\n", " ")
    new = tmp_path / "new.yaml"
    result = run("migrate", "--command", command, "-o", new)
    assert result.code == 0
    assert new.read_text(encoding="utf-8") == (
        "base_config: profile.yaml\n"
        "\n"
        "stages:\n"
        "  - stage_id: 0\n"
        "    enforce_eager: true\n"
        "\n"
        "  - stage_id: 1\n"
        "    enforce_eager: true\n"
        "    max_num_seqs: 2\n"
    )
    shorter = f"vllm serve Qwen/Qwen3-TTS --omni --deploy-config {shlex.quote(str(new))} --port 9000"
    assert f"command: {shorter}\n" in result.out
    assert "both commands start the same engine args" in result.out
    plans = [run("resolve", "--command", each, "--format", "json").data["stages"] for each in (command, shorter)]
    assert plans[0] == plans[1]


def test_flags_that_say_nothing_new_need_no_overlay(run: Run, serve: str) -> None:
    result = run("migrate", "--command", f"{serve} --max-num-seqs 8 --stage-overrides '{{}}'", "--format", "json")
    assert result.data["differences"] == []
    result = run("migrate", "--command", serve)
    assert result.out == ""
    assert "no overlay is needed" in result.err


def test_an_old_command_becomes_a_profile_and_its_flags_fill_in_what_was_open(
    run: Run, profile_file: WriteProfile, tmp_path: Path
) -> None:
    old = profile_file(files.TTS, "old.yaml")
    command = f"vllm serve m --omni --stage-configs-path {old} --gpu-memory-utilization 0.9 --max-model-len 2k --port 1"
    result = run("migrate", "--command", command, "-o", tmp_path / "new.yaml")
    assert result.code == 0
    assert "`--gpu-memory-utilization 0.9` changed nothing" in result.out
    assert result.out.endswith(f"command: vllm serve m --omni --deploy-config {tmp_path / 'new.yaml'} --port 1\n")
    plan = run("resolve", tmp_path / "new.yaml", "--format", "json").data
    args = [stage["engine_args"] for stage in plan["stages"]]
    assert [each["gpu_memory_utilization"] for each in args] == [0.25, 0.2]
    assert [each["max_model_len"] for each in args] == [2000, 2000]


def test_commands_name_their_own_files(run: Run, serve: str) -> None:
    assert run("migrate", "old.yaml", "--command", serve).code == 2
    assert run("migrate", "--check", "--command", serve).code == 2
    assert run("migrate", "--flat", "--command", serve).code == 2
