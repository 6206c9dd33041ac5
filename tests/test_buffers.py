"""Texts that stand in for files while the compiler reads."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnicfg
from omnicfg.buffers import Buffers, identity, in_use
from omnicfg.errors import ResolveError
from omnicfg.passes.read import MAX_BYTES, read_file
from omnicfg.tree import Layer, LayerKind
from tests.conftest import WriteProfile

BASE = "pipeline: qwen3_tts\nasync_chunk: false\nstages:\n  - {stage_id: 0, max_num_seqs: 8}\n"
LAYER = Layer(LayerKind.PROFILE, "profile.yaml")


def max_num_seqs(path: Path) -> object:
    return omnicfg.resolve(path).stages[0].arg("max_num_seqs")


def test_a_text_counts_instead_of_its_file(profile_file: WriteProfile) -> None:
    path = profile_file(BASE)
    with Buffers({identity(path): BASE.replace("8", "4")}):
        assert max_num_seqs(path) == 4
    assert max_num_seqs(path) == 8
    assert in_use() is None


def test_a_base_by_whatever_path_it_is_named(profile_file: WriteProfile, tmp_path: Path) -> None:
    base = profile_file(BASE, "bases/base.yaml")
    (tmp_path / "link.yaml").symlink_to(base)
    path = profile_file("base_config: bases/../link.yaml\n")
    with Buffers({identity(base): BASE.replace("8", "4")}):
        assert max_num_seqs(path) == 4


def test_a_file_that_does_not_exist_yet(profile_file: WriteProfile, tmp_path: Path) -> None:
    new, path = tmp_path / "new.yaml", profile_file("base_config: new.yaml\n")
    with Buffers({identity(new): BASE}):
        assert max_num_seqs(new) == 8
        assert max_num_seqs(path) == 8


def test_a_text_may_be_no_longer_than_a_file(tmp_path: Path) -> None:
    path = tmp_path / "profile.yaml"
    with Buffers({identity(path): "#" * (MAX_BYTES + 1)}), pytest.raises(ResolveError, match="the limit is"):
        read_file(path, LAYER)


def test_what_has_not_changed_is_read_once(profile_file: WriteProfile) -> None:
    path, other = profile_file(BASE), profile_file(BASE, "other.yaml")
    buffers = Buffers({identity(other): BASE})
    with buffers:
        first = read_file(path, LAYER), read_file(other, LAYER)
        assert (read_file(path, LAYER), read_file(other, LAYER)) == first
        path.write_text(BASE + "# more\n")
        buffers.texts[identity(other)] = BASE.replace("8", "4")
        assert read_file(path, LAYER) is not first[0]
        assert read_file(other, LAYER) is not first[1]
        assert read_file(path, LAYER, "another name").mark.file == "another name"


def test_one_within_another(profile_file: WriteProfile) -> None:
    path = profile_file(BASE)
    outer = Buffers({identity(path): BASE.replace("8", "4")})
    with outer, Buffers({identity(path): BASE.replace("8", "2")}):
        assert max_num_seqs(path) == 2
    with outer:
        assert max_num_seqs(path) == 4
