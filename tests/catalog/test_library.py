"""The shipped profiles by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnicfg.catalog.library import find_profile, library
from omnicfg.catalog.paths import data_root, load_json, profiles_dir, schemas_dir
from omnicfg.errors import UsageError


def test_names_are_the_stems_of_files() -> None:
    assert library()["qwen3_omni_moe"] == profiles_dir() / "qwen3_omni_moe.yaml"
    assert list(library()) == sorted(library())
    assert "tiny_omni" in library()


@pytest.mark.parametrize("name", ["tiny_omni", "tiny-omni", "Tiny_Omni", "tiny-omni.yaml"])
def test_spellings_of_a_name(name: str) -> None:
    assert find_profile(name) == (profiles_dir() / "tiny_omni.yaml", "tiny_omni.yaml")


def test_a_path_is_shown_as_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own.yaml").touch()
    monkeypatch.chdir(tmp_path)
    assert find_profile("./own.yaml") == (Path("own.yaml"), "./own.yaml")
    assert find_profile(tmp_path / "own.yaml") == (tmp_path / "own.yaml", str(tmp_path / "own.yaml"))


@pytest.mark.parametrize(
    ("name", "message", "help_text"),
    [
        ("qwen3_omni_mo", "no profile `qwen3_omni_mo`", "Did you mean `qwen3_omni_moe`?"),
        ("zzz", "no profile `zzz`", "`omnicfg profiles` lists the shipped names."),
        ("x/y.yaml", "no profile `x/y.yaml`", "`omnicfg profiles` lists the shipped names."),
        (
            "Duplex",
            "no profile `Duplex`",
            "Shipped names with that in them: qwen3_omni_duplex, qwen3_omni_duplex_mrv2.",
        ),
        ("o", "no profile `o`", "`omnicfg profiles` lists the shipped names."),
        ("no/such/tiny_omni.yaml", "no profile `no/such/tiny_omni.yaml`", "Did you mean `tiny_omni`?"),
    ],
)
def test_a_name_that_is_none(name: str, message: str, help_text: str) -> None:
    with pytest.raises(UsageError) as refused:
        find_profile(name)
    (reason,) = refused.value.diagnostics
    assert reason.message.startswith(message)
    assert reason.help == help_text


def test_a_near_file_beside_it(tmp_path: Path) -> None:
    (tmp_path / "turn.yaml").touch()
    with pytest.raises(UsageError) as refused:
        find_profile(tmp_path / "turns.yaml")
    assert refused.value.diagnostics[0].help == f"Did you mean `{tmp_path / 'turn.yaml'}`?"


def test_a_directory(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a directory"):
        find_profile(tmp_path)


def test_links_that_lead_nowhere(tmp_path: Path) -> None:
    (tmp_path / "to_nothing.yaml").symlink_to("nothing.yaml")
    (tmp_path / "to_itself.yaml").symlink_to("to_itself.yaml")
    for name in ("to_nothing.yaml", "to_itself.yaml"):
        with pytest.raises(UsageError, match="is a link that leads to no file"):
            find_profile(tmp_path / name)


def test_where_the_data_lies() -> None:
    assert profiles_dir() == data_root() / "profiles"
    assert schemas_dir() == data_root() / "schemas"
    assert load_json("schemas/vllm-omni/0.30.0/deploy.json") is load_json("schemas/vllm-omni/0.30.0/deploy.json")


@pytest.mark.parametrize(
    ("name", "message"),
    [("/dev/null", "`/dev/null` is a pipe or a device"), ("", "the name of a profile is empty")],
)
def test_what_can_be_no_profile_is_called_what_it_is(name: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        find_profile(name)
    assert caught.value.diagnostics[0].message == message
