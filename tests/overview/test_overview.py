"""An overview: each profile with its own findings, why it does not compile, and what changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnicfg.catalog.paths import profiles_dir
from omnicfg.findings.settings import Settings
from omnicfg.overview import Overview, ProfileView, Request, overview
from omnicfg.rule import all_platforms
from tests.conftest import WriteProfile
from tests.repositories import BASE, DERIVED, Repo

GOOD = "pipeline: qwen3_tts\nasync_chunk: false\nstages:\n  - {stage_id: 0, enable_prefix_caching: false}\n"


def look(*paths: Path, base: str | None = None) -> Overview:
    return overview(Request(paths, paths, all_platforms(), "vllm-omni", Settings(), base=base))


def told(found: Overview, view: ProfileView) -> list[str]:
    return [found.report.findings[number].code for number in view.findings]


def test_a_finding_in_a_base_counts_for_the_profiles_that_show_it(profile_file: WriteProfile) -> None:
    base = profile_file(GOOD.replace("}", ", max_num_seq: 8}"), "base.yaml")
    derived = profile_file("base_config: base.yaml\npipeline: qwen3_tts\n", "derived.yaml")
    other = profile_file(GOOD, "other.yaml")
    found = look(base, derived, other)
    assert [told(found, view) for view in found.profiles] == [["OC101"], ["OC101"], []]
    assert len(found.report.findings) == 1
    assert found.profiles[1].files == (str(derived), str(base))


def test_a_finding_that_only_one_profile_shows_does_not_count_for_its_base(profile_file: WriteProfile) -> None:
    base = profiles_dir() / "minicpmo_4_5_turn.yaml"
    ours = profile_file(f"base_config: {base}\nmodel_runner: v2\n", "ours.yaml")
    found = look(base, ours)
    findings = found.report.findings
    broken = next(number for number, each in enumerate(findings) if "(in profile ours.yaml)" in each.message)
    assert findings[broken].path == str(base)
    assert [broken in view.findings for view in found.profiles] == [False, True]


def test_a_suppression_that_nothing_needs_belongs_to_its_file(profile_file: WriteProfile) -> None:
    path = profile_file(f"# omnicfg: ignore-file[OC101] not there\n{GOOD}")
    found = look(path)
    assert told(found, found.profiles[0]) == [each.code for each in found.report.findings]


def test_why_a_profile_does_not_compile(profile_file: WriteProfile) -> None:
    v2 = profile_file(f"model_runner: v2\n{GOOD}", "v2.yaml")
    broken = profile_file("stages: [\n", "broken.yaml")
    unknown = profile_file(GOOD.partition("\n")[2], "unknown.yaml")
    found = look(v2, broken, unknown)
    assert set(found.profiles[0].refused) == {"npu", "xpu"}
    assert found.profiles[0].refused["npu"].startswith("OC015 Model Runner V2 does not run on this platform")
    assert found.profiles[1].refused["cuda"].startswith("OC002 ")
    assert found.profiles[1].blocks == ()
    assert set(found.profiles[2].refused) == set(all_platforms())
    assert found.profiles[2].refused["cuda"].startswith("OC013 nothing says which pipeline")


def test_changes_find_their_profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = Repo(tmp_path)
    repo.commit(base=BASE, derived=DERIVED, other=GOOD)
    (tmp_path / "base.yaml").write_text(BASE.replace("false", "true"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    found = look(Path("base.yaml"), Path("derived.yaml"), Path("other.yaml"), base="HEAD")
    assert found.difference is not None
    changes = [view.change for view in found.profiles]
    assert [change and change.path for change in changes] == ["base.yaml", "derived.yaml", None]
    assert changes[1] is not None
    assert changes[1].inherited_from == ("base.yaml",)
