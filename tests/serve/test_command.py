"""``omnicfg serve``: what it prints, and with which exit code it gives up."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from omnicfg import models
from omnicfg.cli import run
from omnicfg.errors import OmnicfgError, ServeError
from omnicfg.serve import machine
from omnicfg.serve.engines import bundled
from omnicfg.serve.launch import Launch, Request
from omnicfg.serve.ports import claimed
from tests.conftest import WriteProfile

CPU = machine.Machine(machine.Vllm("0.32.0", cpu=True), None, (), ())


@pytest.fixture(autouse=True)
def cpu_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with vLLM's CPU build and no hub, on which nothing can be started or made."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(machine, "this_machine", lambda: CPU)
    monkeypatch.setattr("omnicfg.serve.hub.config_directory", lambda model: None)
    monkeypatch.setattr("omnicfg.serve.preflight.broken_companions", list)
    monkeypatch.setattr("omnicfg.serve.preflight.plugin_problems", list)
    monkeypatch.setattr(models, "materialize", lambda model: pytest.fail("a model was made"))
    monkeypatch.setattr("subprocess.Popen.__init__", lambda *_, **__: pytest.fail("a process was started"))


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def test_a_dry_run_prints_one_command_and_starts_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", "tiny-omni", "--dry-run", "--port", "9000", "--api-key", "secret"]) == 0
    out, err = capsys.readouterr()
    *files, line = out.splitlines()
    assert "-m omnicfg.engine.front" in line, "the tiny default speaks"
    assert all(shown.startswith("#") for shown in files)
    assert any('"vllm.entrypoints.openai.api_server"' in shown for shown in files)
    assert any('"port": 9000' in shown for shown in files)
    assert "secret" not in out + err
    assert "serving on the CPU" in err
    assert not (tmp_path / "cache").exists()


def test_a_dry_run_for_vllm_omni_shows_the_deploy_file(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["serve", "qwen3_omni_moe", "--engine", "vllm-omni", "--model", "Some/Model", "--dry-run"]
    assert run(words) == 0
    out = capsys.readouterr().out
    assert '#   pipeline: "qwen3_omni_moe"' in out
    assert "serve Some/Model --omni --deploy-config" in out.splitlines()[-1]


def test_errors_of_the_profile_stop_it(profile_file: WriteProfile, capsys: pytest.CaptureFixture[str]) -> None:
    profile = profile_file("pipeline: tiny_omni\nasync_chunk: false\nstages: [{stage_id: 0, enforce_eager: 'true'}]\n")
    assert run(["serve", str(profile)]) == 1
    out, err = capsys.readouterr()
    assert "error[" in err
    assert out == ""


def test_a_port_in_use_is_trouble(taken_port: int) -> None:
    with pytest.raises(OmnicfgError, match=f"127.0.0.1:{taken_port} cannot be listened on: Address already in use"):
        run(["serve", "tiny-omni", "--port", str(taken_port)])


def test_a_server_that_is_about_to_have_the_port_is_trouble_before_anything_is_made() -> None:
    with claimed("127.0.0.1", 0) as claim:
        words = ["serve", "tiny-omni", "--port", str(claim.port)]
        with pytest.raises(OmnicfgError, match=f"127.0.0.1:{claim.port} is taken: another `omnicfg serve`"):
            run(words)


def test_a_server_that_ends_because_its_port_was_taken_meanwhile_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    others = contextlib.ExitStack()

    def start(launch: Launch, request: Request, *_: object) -> None:
        others.enter_context(socket.create_server((request.host, request.port)))
        raise ServeError("the server ended by itself")

    monkeypatch.setattr(models, "materialize", lambda model: None)
    monkeypatch.setattr(bundled, "start", start)
    with others, pytest.raises(OmnicfgError) as caught:
        run(["serve", "tiny-omni", "--port", "0"])
    end, reason = [diagnostic.message for diagnostic in caught.value.diagnostics]
    assert end == "the server ended by itself"
    assert "cannot be listened on: Address already in use, by process" in reason


def test_a_server_that_ends_with_its_port_free_is_told_of_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: object) -> None:
        raise ServeError("the server ended by itself")

    monkeypatch.setattr(models, "materialize", lambda model: None)
    monkeypatch.setattr(bundled, "start", start)
    with pytest.raises(ServeError, match=r"^OC000 the server ended by itself$"):
        run(["serve", "tiny-omni", "--port", "0"])


@pytest.mark.parametrize("model", ["./nowhere", "~nobody-of-that-name/model"])
def test_all_that_is_missing_is_told_at_once(taken_port: int, model: str) -> None:
    words = ["serve", "qwen3_omni_moe", "--model", model, "--port", str(taken_port)]
    with pytest.raises(OmnicfgError) as caught:
        run(words)
    found = [diagnostic.message for diagnostic in caught.value.diagnostics]
    assert len(found) == 2
    assert "cannot be listened on" in found[0]
    assert f"there is no model `{model}`" in found[1]


def test_a_model_directory_tells_which_hidden_states_are_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = {"architectures": ["Foo"], "talker_config": {"accept_hidden_layer": 7}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert run(["serve", "qwen3_omni_moe", "--model", str(tmp_path), "--dry-run"]) == 0
    out, err = capsys.readouterr()
    assert "PayloadFoo" in out
    assert "hidden states (layer 7) of requests that ask for them are at " in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["qwen3_omni_moe"], "has no model of its own"),
        (["tiny-omni", "--restart", "-1"], "`--restart` is -1"),
        (["tiny-omni", "--model", "builtin:other"], "no built-in model `other`"),
        (["tiny-omni", "--engine", "other"], "`--engine` cannot be `other`"),
        (["tiny-omni", "--platform", "tpu"], "unknown platform `tpu`"),
        (["tiny-omni", "--platform", "all"], "unknown platform `all`"),
        (["tiny-omni", "--port", "70000"], "`--port` is 70000"),
        (["no-such-profile"], "no profile `no-such-profile`"),
        (["tiny-omni", "--engine", "vllm-omni"], "vLLM-Omni has no pipeline tiny_omni"),
    ],
)
def test_what_cannot_be_served_is_trouble(words: list[str], message: str) -> None:
    with pytest.raises(OmnicfgError, match=message):
        run(["serve", *words])


def test_a_pipeline_that_speaks_first_is_left_to_vllm_omni(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", "qwen3_tts", "--model", "a/b"]) == 1
    said = "".join(capsys.readouterr())
    assert said.count("does not answer in text") == 1
    assert "(`--engine vllm-omni`)" in said


@pytest.mark.parametrize("option", ["--api-key", "--host", "--model"])
def test_an_empty_option_is_refused(option: str) -> None:
    with pytest.raises(OmnicfgError, match="is empty"):
        run(["serve", "tiny-omni", "--dry-run", option, ""])


@pytest.mark.parametrize(
    "key", ["sesame\r", " sesame", "two\nlines", "\u043a\u043b\u044e\u0447", os.fsdecode(b"s\xe9same")]
)
def test_a_key_that_no_client_can_send_is_refused(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM would start with it, and turn everybody away."""
    with pytest.raises(OmnicfgError, match="cannot be sent in a header") as caught:
        run(["serve", "tiny-omni", "--dry-run", "--api-key", key])
    assert key.strip() not in str(caught.value)
    assert run(["serve", "tiny-omni", "--dry-run", "--api-key", "s\xe9same 1"]) == 0
