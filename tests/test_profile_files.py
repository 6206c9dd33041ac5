"""Which files of a directory are profiles."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from omnicfg.errors import UsageError
from omnicfg.profile_files import looks_like_profile, profiles_in
from tests.conftest import WriteProfile


@pytest.mark.parametrize(
    "text",
    [
        "stages:\n  - stage_id: 0\n",
        "stages: [{stage_id: 0}]",
        "{stages: [{stage_id: 0}]}",
        '# JSON\n--- {\n  "stages": [{"stage_id": 0}]\n}\n',
        "%YAML 1.1\n---\n\n {stages: [}\n",
        '"pipeline": qwen3_tts\n',
        "base_config: x.yaml\n",
        "pipeline: qwen3_tts\n",
        "async_chunk: false\n",
        "platforms:\n  npu: {}\n",
        "stages:\n  - stage_id: 0\n  bad: [\n",
    ],
)
def test_profiles(profile_file: WriteProfile, text: str) -> None:
    assert looks_like_profile(profile_file(text))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "name: ci\non: push\njobs: {}\n",
        "stages: [build, test]\n",
        "stages:\n  - stage: Build\n    jobs: []\n",
        "pipeline:\n  build: {image: x}\n",
        "platforms:\n  - name: instance\n",
        "- stages: 1\n",
        "{{- if .Values.ingress.enabled -}}\nkind: Ingress\n{{- end }}\n",
        "data:\n  x.json: |\n    {stages: 1}\n  {{- if x }}\n  y: 1\n  {{- end }}\n",
        "{% set version = 1 %}\npackage: {name: x}\n",
        "{# a comment of Jinja's about stages: #}\na: 1\n",
        "{name: [}\n",
        "text: |\n  stages:\n    - stage_id: 0\n",
        "\x00",
    ],
)
def test_other_yaml_files(profile_file: WriteProfile, text: str) -> None:
    assert not looks_like_profile(profile_file(text))


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_a_profile_in_another_encoding_is_one(tmp_path: Path, encoding: str) -> None:
    profile, other = tmp_path / "profile.yaml", tmp_path / "other.yaml"
    profile.write_bytes("# Größe\npipeline: qwen3_tts\n".encode(encoding))
    other.write_bytes("# Größe\nstages: [build, test]\n".encode(encoding))
    assert list(profiles_in([tmp_path])) == [profile]


def test_a_directory_is_searched_and_files_are_taken_as_they_are(profile_file: WriteProfile, tmp_path: Path) -> None:
    profile_file("pipeline: a\n", "b.yaml")
    profile_file("pipeline: a\n", "a/c.YML")
    profile_file("pipeline: a\n", ".git/d.yaml")
    profile_file("pipeline: a\n", "node_modules/d.yaml")
    profile_file("pipeline: a\n", "env/lib/site-packages/d.yaml")
    profile_file("home = /usr/bin\n", "env/pyvenv.cfg")
    other = profile_file("no: profile\n", "other.yaml")
    found = [path.relative_to(tmp_path).as_posix() for path in profiles_in([tmp_path, other, tmp_path / "b.yaml"])]
    assert found == ["b.yaml", "a/c.YML", "other.yaml"]


def test_a_name_is_given_back_as_it_is() -> None:
    assert list(profiles_in([Path("qwen3_tts"), Path("./x/../qwen3_tts")])) == [Path("qwen3_tts")]


def test_a_directory_without_permission_is_told_where_it_is_named_and_skipped_below(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "closed").mkdir()
    (tmp_path / "a.yaml").write_text("pipeline: a\n", encoding="utf-8")
    listed, asked = os.scandir, os.stat

    def scandir(path: Path) -> object:
        if "closed" in str(path):
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    def stat(path: Path, **options: bool) -> object:
        if "closed/" in str(path):
            raise PermissionError(13, "Permission denied", str(path))
        return asked(path, **options)

    monkeypatch.setattr(os, "scandir", scandir)
    monkeypatch.setattr(os, "stat", stat)
    told: list[str] = []
    assert list(profiles_in([tmp_path], lambda error: told.append(error.filename))) == [tmp_path / "a.yaml"]
    assert told == [str(tmp_path / "closed")]
    with pytest.raises(UsageError, match="closed` cannot be read: Permission denied"):
        list(profiles_in([tmp_path / "closed"]))


def test_a_file_without_permission_counts_since_nobody_knows_what_it_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("pipeline: a\n", encoding="utf-8")
    opened = Path.open

    def closed(self: Path, *words: str, **options: str) -> object:
        if self == path:
            raise PermissionError(13, "Permission denied", str(path))
        return opened(self, *words, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", closed)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert list(profiles_in([tmp_path])) == [path]
