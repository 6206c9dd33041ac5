"""Executors are found by their files, and every record names one that exists."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnicfg.engine.stages import StageOptions, kinds, make
from tests.catalog.records import records


def test_helpers_are_no_kinds() -> None:
    assert {"codec-talker", "code2wav"} <= set(kinds())
    assert not any(kind.startswith("-") for kind in kinds())


def test_every_record_names_a_kind_that_there_is() -> None:
    named = {
        stage["bundled"]["executor"]
        for one in records()
        for stage in one["stages"]
        if "executor" in stage.get("bundled", {})
    }
    assert named
    assert named <= set(kinds())


def test_an_unknown_kind_is_told_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no stage executor `dancer`; there are .*codec-talker"):
        make("dancer", StageOptions(tmp_path, {}))
