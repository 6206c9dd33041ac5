"""Exported files as data, and what a container would find in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
from ruamel.yaml import YAML

from tests.commands.conftest import Run, run

__all__ = ["run"]

MODEL: Final = "Org/Model"

Export = Callable[..., list[dict[str, Any]]]


def documents(text: str) -> list[dict[str, Any]]:
    """The documents of a file, as a reader of YAML 1.2 takes them."""
    return list(YAML(typ="safe", pure=True).load_all(text))


@pytest.fixture
def export(run: Run) -> Export:
    """``export("qwen3_tts", "k8s", "--port", 80)``: the documents."""

    def call(profile: object, to: str, *words: object) -> list[dict[str, Any]]:
        result = run("export", profile, "--to", to, "--model", MODEL, *words)
        assert result.code == 0, result.err
        return documents(result.out)

    return call
