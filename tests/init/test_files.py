"""What `omnicfg init` writes is clean, whatever it is written for, and stays right when its comments are taken off."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import omnicfg
from omnicfg.catalog.library import library
from omnicfg.catalog.paths import schemas_dir
from omnicfg.catalog.upstream import pipelines
from omnicfg.check import validate
from omnicfg.compiler import parsed_overrides
from omnicfg.diagnostics import Diagnostic, Severity
from omnicfg.init.request import Request, for_pipeline, on_profile
from omnicfg.init.text import schema_reference, text_of
from omnicfg.rule import all_platforms
from tests.conftest import WriteProfile


def offering(name: str) -> list[str]:
    """The platforms that take a shipped profile."""
    return [platform for platform in all_platforms() if not refuses(name, platform)]


def refuses(name: str, platform: str) -> bool:
    try:
        omnicfg.resolve(name, platform=platform)
    except omnicfg.OmnicfgError:
        return True
    return False


def written(request: Request) -> Path:
    request.path.write_text(text_of(request), encoding="utf-8")
    return request.path


def own(found: list[Diagnostic], path: Path) -> list[Diagnostic]:
    """What is found in the file itself; what its base is known for is not its own."""
    return [each for each in found if each.path == str(path)]


def uncommented(path: Path) -> Path:
    """The file with every setting that it offers taken on."""
    text = path.read_text(encoding="utf-8")
    path.write_text(re.sub(r"^( +)# ([a-z_]+: .*)$", r"\1\2", text, flags=re.M), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", library())
def test_an_overlay_is_clean_and_changes_nothing(name: str, tmp_path: Path) -> None:
    for platform in offering(name):
        path = written(on_profile(tmp_path / "own.yaml", name, platform, []))
        assert own(validate(name, platform=platform, overlays=[path]), path) == []
        before = omnicfg.resolve(name, platform=platform).to_dict()
        assert omnicfg.resolve(name, platform=platform, overlays=[path]).to_dict()["stages"] == before["stages"]
        after = omnicfg.resolve(name, platform=platform, overlays=[uncommented(path)]).to_dict()
        assert after["stages"] == before["stages"], "the comments say what is there"


@pytest.mark.parametrize("name", library())
def test_a_setting_takes_effect_on_its_platform_whatever_the_profile_says(name: str, tmp_path: Path) -> None:
    for platform in offering(name):
        settings = parsed_overrides(["stages.0.max_num_seqs=3", "stages.0.default_sampling_params.seed=7"])
        path = written(on_profile(tmp_path / "own.yaml", name, platform, settings))
        stage = omnicfg.resolve(name, platform=platform, overlays=[path]).to_dict()["stages"][0]
        assert stage["engine_args"]["max_num_seqs"] == 3
        assert stage["extras"]["default_sampling_params"]["seed"] == 7


@pytest.mark.parametrize("pipeline", pipelines())
def test_a_profile_of_its_own_is_clean_on_every_platform(pipeline: str, tmp_path: Path) -> None:
    path = written(for_pipeline(tmp_path / "own.yaml", pipeline, "cuda", []))
    assert [each.message for each in validate(str(path))] == []
    worse = validate(str(uncommented(path)))
    assert [each.message for each in worse if each.severity is Severity.ERROR] == []


def test_the_tree_of_a_project_is_named_relative_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "schemas").mkdir()
    monkeypatch.setattr("omnicfg.init.text.schemas_dir", lambda: tmp_path / "schemas")
    assert schema_reference(tmp_path / "deploy" / "own.yaml") == "../schemas/profile.schema.json"


def test_elsewhere_the_schema_is_named_by_its_address_which_holds_for_everybody(tmp_path: Path) -> None:
    reference = schema_reference(tmp_path / "own.yaml")
    assert reference.startswith("https://")
    assert (schemas_dir() / reference.rpartition("/")[2]).is_file()


def test_an_overlay_on_a_file_names_it(tmp_path: Path, profile_file: WriteProfile) -> None:
    base = profile_file(
        "pipeline: qwen3_tts\nasync_chunk: false\nstages: [{stage_id: 0, max_num_seqs: 2}]\n", "b/base.yaml"
    )
    (tmp_path / "own").mkdir()
    path = written(on_profile(tmp_path / "own" / "own.yaml", str(base), "cuda", []))
    assert "\nbase_config: ../b/base.yaml\n" in path.read_text()
    assert own(validate(str(path)), path) == []
    assert omnicfg.resolve(path).to_dict()["stages"][0]["engine_args"]["max_num_seqs"] == 2


def test_stages_that_share_a_device_share_its_memory(tmp_path: Path) -> None:
    settings = parsed_overrides(['stages.1.devices="1"', 'stages.2.devices="1"'])
    path = written(for_pipeline(tmp_path / "own.yaml", "qwen3_omni_moe", "cuda", settings))
    shares = [stage["engine_args"]["gpu_memory_utilization"] for stage in omnicfg.resolve(path).to_dict()["stages"]]
    assert shares == [0.9, 0.45, 0.45]


def test_what_is_said_goes_before_what_is_made_up(tmp_path: Path) -> None:
    settings = parsed_overrides(
        ["async_chunk=false", "enable_prefix_caching=true", "stages.0.gpu_memory_utilization=0.5"]
    )
    text = text_of(for_pipeline(tmp_path / "own.yaml", "qwen3_tts", "cuda", settings))
    assert [
        text.count(line)
        for line in ("async_chunk: false", "enable_prefix_caching: true", "gpu_memory_utilization: 0.5")
    ] == [1, 1, 1]
    assert "async_chunk: true" not in text
