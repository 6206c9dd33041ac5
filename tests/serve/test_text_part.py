"""A first stage whose whole cannot be served here is served as the text model inside of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import omnicfg
from omnicfg.models import tiny_omni, tiny_thinker
from omnicfg.serve import media_sources
from omnicfg.serve import text_part as module
from omnicfg.serve.engines import bundled
from omnicfg.serve.launch import Request
from omnicfg.serve.machine import Machine, Vllm
from omnicfg.serve.text_part import text_part

CPU = Machine(Vllm("0.32.0", cpu=True), None, (), ())
GPU = Machine(Vllm("0.32.0", cpu=False), None, ("A",), ("0",))


def request(model: Path, config: dict[str, Any] | None = None) -> Request:
    plan = omnicfg.resolve("tiny_omni")
    return Request(plan, str(model), "tiny-omni", "127.0.0.1", 8091, config=config or tiny_omni.config())


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    (tmp_path / "preprocessor_config.json").write_text("{}")
    return tmp_path


@pytest.mark.parametrize(
    ("torchvision", "machine", "served"), [(None, CPU, "part"), ("0.28.0", CPU, "whole"), (None, GPU, "whole")]
)
def test_the_whole_is_served_where_its_libraries_are(
    torchvision: str | None, machine: Machine, served: str, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "installed_version", lambda _: torchvision)
    assert ("whole" if text_part(request(whole), machine) is None else "part") == served


def test_a_checkpoint_without_processors_is_given_text_only(tmp_path: Path) -> None:
    part = text_part(request(tmp_path), GPU)
    assert part is not None
    assert "has no processors for pictures and sounds (preprocessor_config.json" in part.reason


def test_of_a_model_that_is_not_here_nothing_is_assumed() -> None:
    assert text_part(request(Path("Some/Model")), GPU) is None


def test_a_configuration_of_another_form_has_no_part(tmp_path: Path) -> None:
    assert text_part(request(tmp_path, {"architectures": ["Foo"]}), CPU) is None


def test_its_configuration_is_the_one_of_the_text_model_alone(tmp_path: Path) -> None:
    part = text_part(request(tmp_path), CPU)
    assert part is not None
    assert part.config == tiny_thinker.config()
    assert part.weights == "thinker."


def test_who_sends_pictures_to_a_part_is_told_why_they_are_not_taken(
    whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "installed_version", lambda _: None)
    launch = bundled.first_stage(request(whole), CPU)
    reason = "vLLM's classes for pictures and sounds import torchvision, and it is not installed beside this torch"
    assert json.loads(launch.env[media_sources.VARIABLE])["text_alone"] == reason
    assert f"text alone goes in: {reason}" in launch.notices


@pytest.mark.parametrize("resampler", ["torchaudio", "av"])
def test_a_whole_that_cannot_resample_says_so(whole: Path, resampler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    versions: dict[str, str | None] = {"torchvision": "0.28.0"}
    monkeypatch.setattr(module, "installed_version", versions.get)
    monkeypatch.setattr(bundled, "installed_version", versions.get)
    notice = "sounds are taken at the rate of the model's processor alone"
    assert any(told.startswith(notice) for told in bundled.launch(request(whole), CPU).notices)
    versions[resampler] = "2.11.0"
    assert not any(told.startswith(notice) for told in bundled.launch(request(whole), CPU).notices)


def test_the_launch_brings_the_configuration_and_keeps_the_checkpoint(tmp_path: Path) -> None:
    launch = bundled.first_stage(request(tmp_path), CPU)
    part = text_part(request(tmp_path), CPU)
    assert part is not None
    assert launch.files[part.file] == part.text
    words = list(launch.command)
    assert words[words.index("--model") + 1] == str(tmp_path)
    assert words[words.index("--hf-config-path") + 1] == str(part.config_directory)
    assert json.loads(words[words.index("--hf-overrides") + 1]) == {"architectures": ["PayloadQwen3MoeForCausalLM"]}
    assert json.loads(words[words.index("--additional-config") + 1])["payload_weights"] == "thinker."
