"""``resolve`` and ``validate`` with ``--model DIR``: notes on standard error, beside any format."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from omnicfg.cli import run
from omnicfg.errors import UsageError

THINKER = {"num_hidden_layers": 48, "hidden_size": 2048, "num_attention_heads": 32, "num_key_value_heads": 4}
LINE = "stage 0 (thinker): a token takes {} B of keys and values and, on the bundled engine, {} B of payload rows"


@pytest.fixture
def model(tmp_path: Path) -> str:
    config = {"architectures": ["A"], "thinker_config": {"head_dim": 128, **THINKER}, "talker_config": {}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    return str(tmp_path)


@pytest.mark.parametrize("words", [["resolve"], ["resolve", "--format", "json"], ["validate", "--platform", "cuda"]])
def test_the_estimate_stands_beside_the_output(
    words: list[str], model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*words, "qwen3_omni_moe", "--model", model]) == 0
    out, err = capsys.readouterr()
    assert f"note: {LINE.format('98,304', '4,096')}" in err
    assert "keys and values" not in out


def test_platforms_that_differ_are_named(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["validate", "qwen3_omni_moe", "--model", model]) == 0
    err = capsys.readouterr().err
    assert f"note: cuda, rocm, musa: {LINE.format('98,304', '4,096')}" in err
    assert f"note: npu: {LINE.format('49,152', '2,048')}" in err, "two ranks keep half of a token each"
    assert "note: stage 1 (talker): no estimate of its KV cache: config.json: there is no num_hidden_layers" in err


@pytest.mark.parametrize("command", ["resolve", "validate"])
def test_a_size_needs_a_model_and_a_unit(command: str, model: str) -> None:
    with pytest.raises(UsageError, match="needs a model"):
        run([command, "qwen3_omni_moe", "--device-memory", "80GB"])
    with pytest.raises(UsageError, match="`--device-memory` cannot be `80`"):
        run([command, "qwen3_omni_moe", "--model", model, "--device-memory", "80"])


@pytest.mark.parametrize("command", ["resolve", "validate"])
def test_without_a_model_nothing_is_estimated(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    run([command, "qwen3_omni_moe", "--platform", "cuda"])
    assert "keys and values" not in capsys.readouterr().err
