"""``builtin:NAME`` stands for a checkpoint that is made on first use."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnicfg import models
from omnicfg.errors import ServeError, UsageError


def test_recipes_are_found_by_their_files() -> None:
    assert "tiny-omni" in models.names()
    assert not any(name.startswith("-") for name in models.names()), "helpers are no recipes"


def test_a_name_that_no_recipe_has_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(UsageError, match="no built-in model `huge-omni`") as caught:
        models.materialize("builtin:huge-omni")
    assert "tiny-omni" in str(caught.value.diagnostics[0].help)


def test_asking_where_it_is_makes_nothing(tmp_path: Path) -> None:
    assert models.location("builtin:tiny-omni", tmp_path).parent == tmp_path / "models"
    assert list(tmp_path.iterdir()) == []


def test_a_recipe_that_changes_makes_another_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from omnicfg.models import tiny_omni

    before = models.location("builtin:tiny-omni", tmp_path)
    monkeypatch.setattr(tiny_omni, "VERSION", tiny_omni.VERSION + 1)
    assert models.location("builtin:tiny-omni", tmp_path) != before


def test_a_cache_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "models").write_text("a file where a directory is needed")
    with pytest.raises(ServeError, match="cannot be written") as caught:
        models.materialize("builtin:tiny-omni", tmp_path)
    assert "XDG_CACHE_HOME" in str(caught.value.diagnostics[0].help)


def test_a_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from omnicfg.models import tiny_omni

    def write(directory: Path) -> None:
        raise ModuleNotFoundError("No module named 'tokenizers'", name="tokenizers")

    monkeypatch.setattr(tiny_omni, "write", write)
    with pytest.raises(ServeError, match="needs the Python package `tokenizers`"):
        models.materialize("builtin:tiny-omni", tmp_path)
