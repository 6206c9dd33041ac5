"""The JSON Schemas in the server that editors read them with: yaml-language-server itself, as npm has it."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from lsprotocol import types as lsp

from omnicfg.catalog.paths import schemas_dir
from tests.lsp.editor import Editor

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("npm") is None, reason="npm, which installs yaml-language-server, is not here"),
]

VERSION = "2.0.0"
SETTINGS = {"yaml": {"validate": True, "hover": True, "completion": True, "schemaStore": {"enable": False}}}
TEXT = """\
pipeline: qwen3_tts
session_mode: trn
stages:
  - stage_id: 0
    max_num_seqs: 8
    max_num_sqs: 8
platforms:
  npu:
    stages: []
"""


@pytest.fixture(scope="module")
def editor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    folder = tmp_path_factory.mktemp("npm")
    install = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder)]
    subprocess.run([*install, f"yaml-language-server@{VERSION}"], check=True, cwd=folder, timeout=300)
    server = str(folder / "node_modules" / ".bin" / "yaml-language-server")
    with Editor(command=[server, "--stdio"], settings=SETTINGS) as running:
        yield running


@pytest.fixture
def profile(tmp_path: Path) -> tuple[Path, str]:
    """A profile as docs/editors.md has one begin, and its text."""
    (tmp_path / "schemas").symlink_to(schemas_dir())
    path = tmp_path / "profiles" / "mine.yaml"
    return path, f"# yaml-language-server: $schema=../schemas/profile.schema.json\n{TEXT}"


def told(diagnostics: list[lsp.Diagnostic]) -> set[tuple[int, str]]:
    return {(each.range.start.line, each.message) for each in diagnostics}


def test_what_is_wrong_is_told(editor: Editor, profile: tuple[Path, str]) -> None:
    assert told(editor.open(*profile)) == {
        (2, 'Value is not accepted. Valid values: "turn", "duplex".'),
        (6, "Property max_num_sqs is not allowed."),
    }


def test_keys_and_choices_are_completed_and_explained(editor: Editor, profile: tuple[Path, str]) -> None:
    path, text = profile
    editor.open(path, text.replace("session_mode: trn", "session_mode: ").replace("max_num_sqs: 8", "gpu_mem"))
    assert set(editor.completions(path, 2, 14)) >= {"turn", "duplex"}
    offered = editor.completions(path, 6, 11)
    assert "The fraction of GPU memory" in offered["gpu_memory_utilization"]
    assert "Default: `0.92`." in offered["gpu_memory_utilization"]
    platforms = editor.completions(path, 8, 2)
    assert set(platforms) >= {"cuda", "rocm", "xpu", "musa"}


def test_hover_explains_a_key(editor: Editor, profile: tuple[Path, str]) -> None:
    editor.open(*profile)
    found = editor.hover(profile[0], 5, 8)
    assert found is not None
    assert isinstance(found.contents, lsp.MarkupContent)
    assert "Maximum number of sequences to be processed in a single iteration." in found.contents.value


@pytest.mark.parametrize("name", sorted(path.name for path in schemas_dir().glob("*.schema.json")))
def test_every_schema_is_read(editor: Editor, tmp_path: Path, name: str) -> None:
    path = tmp_path / "document.yaml"
    text = f"# yaml-language-server: $schema={schemas_dir() / name}\nno_such_key_of_any: 1\n"
    messages = [message for _, message in told(editor.open(path, text))]
    schema = json.loads((schemas_dir() / name).read_text())
    assert messages
    assert not any("Unable to load" in message or "cannot resolve" in message.lower() for message in messages)
    if schema.get("required"):
        assert any(f'Missing property "{schema["required"][0]}"' in message for message in messages)
