"""Which setting a cursor is on, and what it is called in a plan."""

from __future__ import annotations

import pytest

from omnicfg.lsp.cursor import plan_key, setting_at
from omnicfg.passes.read import read_text
from omnicfg.tree import Layer, LayerKind

TEXT = """\
base_config: base.yaml
async_chunk: true
stages:
  - stage_id: 1
    engine_args: {seed: &s 1}
    max_num_seqs: 8
    env: {A.B: "1"}
    default_sampling_params: {stop: [a, b], seed: *s}
platforms:
  npu:
    model_runner: v1
    stages:
      - {stage_id: 1, runtime: {devices: "0"}}
"""
DOCUMENT = read_text(TEXT, Layer(LayerKind.PROFILE), "p.yaml")


def key_at(word: str, occurrence: int = 0) -> str | None:
    """The plan's key for the setting at a word of the text."""
    index = -1
    for _ in range(occurrence + 1):
        index = TEXT.index(word, index + 1)
    before = TEXT[:index]
    found = setting_at(DOCUMENT, before.count("\n") + 1, index - before.rfind("\n"))
    return None if found is None else plan_key(DOCUMENT, found.route)


@pytest.mark.parametrize(
    ("word", "occurrence", "key"),
    [
        ("async_chunk", 0, "async_chunk"),
        ("true", 0, "async_chunk"),
        ("max_num_seqs", 0, "stages.1.max_num_seqs"),
        ("8", 0, "stages.1.max_num_seqs"),
        ("seed", 0, "stages.1.seed"),
        ("&s", 0, "stages.1.seed"),
        ("stop", 0, "stages.1.default_sampling_params.stop"),
        ("b]", 0, "stages.1.default_sampling_params.stop.1"),
        ("seed", 1, "stages.1.default_sampling_params.seed"),
        ("model_runner", 0, "model_runner"),
        ("devices", 0, "stages.1.devices"),
        ('"0"', 0, "stages.1.devices"),
    ],
)
def test_settings(word: str, occurrence: int, key: str) -> None:
    assert key_at(word, occurrence) == key


@pytest.mark.parametrize(
    ("word", "occurrence"),
    [("base_config", 0), ("stages", 0), ("stage_id", 0), ("engine_args", 0), ("A.B", 0), ("npu", 0), ("*s", 0)],
)
def test_what_is_no_setting(word: str, occurrence: int) -> None:
    assert key_at(word, occurrence) is None
