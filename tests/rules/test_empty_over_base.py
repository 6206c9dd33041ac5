"""OC307: an empty value that clears nothing; what mends it."""

from __future__ import annotations

import pytest

import omnicfg
from tests.conftest import WriteProfile

BASE = """\
pipeline: qwen3_tts
async_chunk: false
connectors: {shm: {name: SharedMemoryConnector}}
stages:
  - stage_id: 0
    default_sampling_params: {top_k: 3}
  - stage_id: 1
    input_connectors: {from_stage_0: shm}
platforms: {npu: {stages: [{stage_id: 0, max_num_seqs: 1}]}}
"""


@pytest.mark.parametrize(
    ("text", "mended"),
    [
        ("stages: []\nsession_mode: turn\n", "session_mode: turn\n"),
        ("connectors: null  # none\n", ""),
        ("platforms:\n  npu: {}\n  xpu: {model_runner: v1}\n", "platforms:\n  xpu: {model_runner: v1}\n"),
        ("stages: [{stage_id: 0, default_sampling_params: {}}]\n", "stages: [{stage_id: 0}]\n"),
    ],
)
def test_it_may_go(profile_file: WriteProfile, text: str, mended: str) -> None:
    profile_file(BASE, "base.yaml")
    profile = profile_file(f"base_config: base.yaml\n{text}")
    (found,) = (one for one in omnicfg.validate(profile) if one.code == "OC307")
    assert found.fix is not None
    assert found.fix.safe
    before = omnicfg.resolve(profile).to_dict()
    lines = f"base_config: base.yaml\n{text}"
    (edit,) = found.fix.edits
    rows = lines.splitlines(keepends=True)
    start = sum(map(len, rows[: edit.mark.line - 1])) + edit.mark.column - 1
    end = sum(map(len, rows[: edit.mark.end_line - 1])) + edit.mark.end_column - 1
    profile.write_text(lines[:start] + edit.text + lines[end:], encoding="utf-8")
    assert profile.read_text(encoding="utf-8") == f"base_config: base.yaml\n{mended}"
    assert omnicfg.resolve(profile).to_dict() == before
    assert omnicfg.validate(profile) == []


def test_what_is_alone_in_its_block_is_left_to_the_author(profile_file: WriteProfile) -> None:
    profile_file(BASE, "base.yaml")
    (found,) = omnicfg.validate(profile_file("base_config: base.yaml\nplatforms: {npu: null}\n"))
    assert (found.code, found.fix) == ("OC307", None)
