"""OC708: who hears that a prefix cache hits less than it seems, and who does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import WriteProfile
from tests.rules.checked import told

ON = "pipeline: qwen3_omni_moe_thinker_only\nstages:\n  - stage_id: 0\n    enable_prefix_caching: true\n"
RECURRENT: list[dict[str, Any]] = [
    {"layer_types": ["linear_attention", "full_attention"]},
    {"thinker_config": {"text_config": {"layer_types": ["mamba", "full_attention"]}}},
    {"hybrid_override_pattern": "M*M*"},
    {"text_config": {"full_attention_interval": 4}},
]
ATTENTION: list[dict[str, Any]] = [
    {"num_hidden_layers": 4},
    {"layer_types": ["full_attention", "sliding_attention", "chunked_attention"]},
]


def model(folder: Path, config: dict[str, Any]) -> Path:
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize("config", RECURRENT)
@pytest.mark.parametrize("engine", ["vllm-omni", "bundled"])
def test_the_setting_is_pointed_at(
    profile_file: WriteProfile, tmp_path: Path, config: dict[str, Any], engine: str
) -> None:
    [(line, column, message)] = told(profile_file(ON), "OC708", model=model(tmp_path, config), engine=engine)
    assert (line, column) == (4, 28)
    assert message.startswith("the prefix cache of stage 0 (thinker) hits only in whole blocks")


@pytest.mark.parametrize("config", ATTENTION)
def test_attention_alone_is_fine(profile_file: WriteProfile, tmp_path: Path, config: dict[str, Any]) -> None:
    assert told(profile_file(ON), "OC708", model=model(tmp_path, config)) == []


def test_an_override_is_pointed_at(profile_file: WriteProfile, tmp_path: Path) -> None:
    text = ON.replace("true", "false")
    options = {"model": model(tmp_path, RECURRENT[0]), "overrides": ["stages.0.enable_prefix_caching=true"]}
    [(line, column, _)] = told(profile_file(text), "OC708", **options)
    assert (line, column) == (1, 32)
    assert told(profile_file(text), "OC708", model=tmp_path) == []


@pytest.mark.parametrize("content", [None, "{", "[]"])
def test_without_a_config_nothing_is_said(profile_file: WriteProfile, tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    assert told(profile_file(ON), "OC708", model=tmp_path) == []
    assert told(profile_file(ON), "OC708") == []
