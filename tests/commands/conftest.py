"""Running commands the way a shell does, within the test's own process."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from omnicfg.cli import main


class Result(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """The output as JSON: all of it, nothing before or after."""
        return json.loads(self.out)


Run = Callable[..., Result]
Validate = Callable[..., Result]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """``run("resolve", "qwen3_tts", "--format", "json")``."""

    def call(*words: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["omnicfg", *map(str, words)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main()
        out, err = capsys.readouterr()
        code = caught.value.code
        assert isinstance(code, int)
        return Result(code, out, err)

    return call


@pytest.fixture
def validate(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Validate:
    """``validate`` in the folder that ``profile_file`` writes to."""
    monkeypatch.chdir(tmp_path)
    return lambda *words: run("validate", *words)
