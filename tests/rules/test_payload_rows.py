"""OC503: what keeps the bundled engine from keeping hidden states for a later stage, where it is to be told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from omnicfg.diagnostics import Severity
from tests.conftest import WriteProfile
from tests.rules.checked import findings, told

QWEN = "pipeline: qwen3_omni_moe\nstages:\n  - stage_id: 0\n    {setting}\n"
SETTINGS = [
    ("pipeline_parallel_size: 2", "pipeline_parallel_size > 1"),
    ("decode_context_parallel_size: 2", "decode_context_parallel_size > 1"),
    ("speculative_config: {method: ngram}", "speculative_config"),
    ("kv_transfer_config: {kv_connector: NixlConnector}", "kv_transfer_config"),
    ("kv_offloading_size: 4", "kv_offloading_size"),
    ("enable_dbo: true", "enable_dbo"),
]
CONFIG: dict[str, Any] = {
    "architectures": ["Qwen3OmniMoeForConditionalGeneration"],
    "model_type": "qwen3_omni_moe",
    "thinker_config": {"text_config": {"num_hidden_layers": 48}},
    "talker_config": {"accept_hidden_layer": 24},
}


def profile(write: WriteProfile, setting: str = "max_num_seqs: 8") -> Path:
    return write(QWEN.format(setting=setting))


def model(folder: Path, **changed: Any) -> Path:
    (folder / "config.json").write_text(json.dumps({**CONFIG, **changed}))
    return folder


@pytest.mark.parametrize(("setting", "named"), SETTINGS)
def test_a_setting_is_pointed_at(profile_file: WriteProfile, setting: str, named: str) -> None:
    column = 5 + setting.index(":") + 2
    [found] = findings(profile(profile_file, setting), "OC503", engine="bundled")
    assert (found.line, found.column, found.stage_id, found.severity) == (4, column, 0, Severity.ERROR)
    assert found.message.startswith(
        "a later stage reads hidden states of stage 0 (thinker), which the bundled engine cannot keep here: " + named
    )
    assert found.help == "Change that, or serve with vLLM-Omni (`--engine vllm-omni`)."


def test_vllm_omni_keeps_them_its_own_way(profile_file: WriteProfile) -> None:
    assert told(profile(profile_file, SETTINGS[0][0]), "OC503") == []


def test_a_pipeline_without_a_later_stage_keeps_none(profile_file: WriteProfile) -> None:
    alone = profile_file(QWEN.replace("_moe", "_moe_thinker_only").format(setting=SETTINGS[0][0]))
    assert told(alone, "OC503", engine="bundled") == []


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"thinker_config": {"sliding_window": 4096}}, "sliding-window layers"),
        ({"thinker_config": {"layer_types": ["linear_attention", "full_attention"]}}, "linear_attention layers"),
        ({"thinker_config": {"num_hidden_layers": 12}}, "payload: layer 24 of a Thinker with 12 layers"),
        ({"talker_config": {"accept_hidden_layer": 0}}, "layer 0 is the embedding"),
        ({"talker_config": {"accept_hidden_layer": "all"}}, "config.json: talker_config.accept_hidden_layer: layers"),
        ({"architectures": None}, "names no architecture"),
    ],
)
def test_a_model_is_told_at_its_stage(
    profile_file: WriteProfile, tmp_path: Path, changed: dict[str, Any], reason: str
) -> None:
    [found] = findings(profile(profile_file), "OC503", engine="bundled", model=model(tmp_path, **changed))
    assert (found.line, found.column) == (3, 15)
    assert reason in found.message


def test_a_model_that_fits_is_clean(profile_file: WriteProfile, tmp_path: Path) -> None:
    assert told(profile(profile_file), "OC503", engine="bundled", model=model(tmp_path)) == []
    (tmp_path / "config.json").unlink()
    assert told(profile(profile_file), "OC503", engine="bundled", model=tmp_path) == []


def test_a_config_that_cannot_be_read_is_told(profile_file: WriteProfile, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    [found] = findings(profile(profile_file), "OC503", engine="bundled", model=tmp_path)
    assert found.path == str(tmp_path / "config.json")
    assert "is not JSON" in found.message
