"""Model directories that are none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import omnicfg
from omnicfg.errors import ResolveError
from omnicfg.passes.pipeline import pipeline_of_model
from tests.conftest import WriteProfile
from tests.fuzz.harness import time_limit

CONFIGS = {
    # config.json: words of the refusal
    "": "is not JSON",
    "{": "is not JSON",
    "[" * 100_000: "is not JSON",
    '{"model_type": ' + "9" * 10_000 + "}": "is not JSON",
    "\ufeff{}": "is not JSON",
    "[]": "is not a JSON object",
    "null": "is not a JSON object",
    '"qwen3_tts"': "is not a JSON object",
    "{" + " " * 2_000_000 + "}": "2000002 bytes; the limit is 1048576",
}


@pytest.mark.parametrize(("content", "words"), CONFIGS.items(), ids=[content[:20] or "empty" for content in CONFIGS])
def test_a_broken_config_is_refused_by_name(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "config.json").write_text(content, encoding="utf-8")
    with time_limit(), pytest.raises(ResolveError) as refused:
        pipeline_of_model(tmp_path)
    (reason,) = refused.value.diagnostics
    assert reason.path == str(tmp_path / "config.json")
    assert words in reason.message


def test_a_config_that_is_no_text_says_where(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(b'{\n  "model_type": "\xff"}')
    with pytest.raises(ResolveError) as refused:
        pipeline_of_model(tmp_path)
    (reason,) = refused.value.diagnostics
    assert (reason.line, reason.column) == (2, 18)


@pytest.mark.parametrize(
    "content",
    [
        "{}",
        '{"model_type": null}',
        '{"model_type": ["qwen3_tts"]}',
        '{"model_type": {}}',
        '{"model_type": 5, "architectures": 5}',
        '{"architectures": [null, 5, [], {}]}',
        '{"architecture": ["x"], "hf_config": NaN}',
        '{"model_type": "vla", "policy": 5}',
    ],
)
def test_a_config_of_odd_types_leads_nowhere(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.json").write_text(content, encoding="utf-8")
    (tmp_path / "model_index.json").write_text('{"_class_name": ["x"]}', encoding="utf-8")
    assert pipeline_of_model(tmp_path) is None


def _pipe(folder: Path) -> Path:
    os.mkfifo(folder / "config.json")
    return folder


def _folder(folder: Path) -> Path:
    (folder / "config.json").mkdir()
    return folder


def _endless(folder: Path) -> Path:
    (folder / "config.json").symlink_to("/dev/zero")
    return folder


@pytest.mark.parametrize("make", [_pipe, _folder, _endless])
def test_a_config_that_is_no_file_is_refused(tmp_path: Path, make: object) -> None:
    assert callable(make)
    with time_limit(), pytest.raises(ResolveError) as refused:
        pipeline_of_model(make(tmp_path))
    assert "is not a regular file" in refused.value.diagnostics[0].message


@pytest.mark.parametrize("name", ["missing", "config.json/x", "a" * 300, "a\0b", "\udc80"])
def test_a_directory_that_is_none_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ResolveError) as refused:
        pipeline_of_model(tmp_path / name)
    assert refused.value.diagnostics[0].message.startswith("no model directory")


def test_validate_turns_a_broken_model_into_a_finding(profile_file: WriteProfile, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("[]", encoding="utf-8")
    (found,) = omnicfg.validate(profile_file("async_chunk: false\n"), model=tmp_path)
    assert (found.code, found.path) == ("OC001", str(tmp_path / "config.json"))
