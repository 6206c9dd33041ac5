"""A model directory's own word, read as the untrusted file that it is."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnicfg
from omnicfg.errors import ResolveError
from omnicfg.resources.checkpoint import stage_config


def test_a_stage_whose_checkpoint_is_a_part_of_the_directory(tmp_path: Path) -> None:
    whole, part = omnicfg.resolve("qwen3_omni_moe").stages[0], omnicfg.resolve("audex_thinker_only").stages[0]
    assert stage_config(tmp_path, whole) is None
    folder = tmp_path / part.arg("model_subdir")
    folder.mkdir()
    (folder / "config.json").write_text('{"inner": 1}')
    (tmp_path / "config.json").write_text('{"outer": 1}')
    assert stage_config(tmp_path, whole) == {"outer": 1}
    assert stage_config(tmp_path, part) == {"inner": 1}


@pytest.mark.parametrize("text", ["{", "[]", "\x00", "[" * 100_000])
def test_what_is_no_json_object_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ResolveError, match=r"config\.json"):
        stage_config(tmp_path, omnicfg.resolve("qwen3_omni_moe").stages[0])
