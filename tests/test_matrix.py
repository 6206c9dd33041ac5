"""The prefix-cache scope, against the review's matrix and the records."""

from __future__ import annotations

import pytest

from omnicfg.catalog.library import library
from omnicfg.catalog.upstream import deploy_schema
from omnicfg.matrix import Cell, matrix
from tests.conftest import WriteProfile

PLATFORMS = deploy_schema().platforms


@pytest.fixture(scope="module")
def cells() -> list[Cell]:
    return matrix(PLATFORMS)[0]


def test_every_stage_of_every_profile_is_there_once_on_every_platform(cells: list[Cell]) -> None:
    places = [(cell.profile, cell.stage_id, platform) for cell in cells for platform in cell.platforms]
    assert len(places) == len(set(places))
    assert {profile for profile, _, _ in places} == set(library())
    assert {platform for _, _, platform in places} == set(PLATFORMS)


def test_equal_platforms_share_a_row(cells: list[Cell]) -> None:
    rows = [
        (cell.platforms, cell.value, cell.by, cell.verdict)
        for cell in cells
        if cell.profile == "minicpmo_4_5_turn" and cell.stage_id == 0
    ]
    assert rows == [
        (("cuda",), "on", "platform", "validated"),
        (("npu",), "off", "platform", "unvalidated"),
        (("rocm", "xpu", "musa"), "off", "base", "unvalidated"),
    ]


def test_no_shipped_profile_is_on_where_its_record_refuses_it(cells: list[Cell]) -> None:
    assert not [cell for cell in cells if cell.on and cell.verdict == "broken"]


def test_every_verdict_has_its_evidence_and_source(cells: list[Cell]) -> None:
    assert all(cell.evidence and cell.source for cell in cells if cell.verdict)


def test_profiles_of_a_model_stand_together(cells: list[Cell]) -> None:
    models = [cell.model for cell in cells]
    assert models == sorted(models)


def test_an_unset_cache_is_on_by_vllms_default(profile_file: WriteProfile) -> None:
    path = profile_file("pipeline: qwen3_tts\nasync_chunk: false\n")
    cells, _ = matrix(("cuda",), [str(path)])
    assert [(cell.value, cell.by) for cell in cells] == [
        ("on", "vLLM 0.32.0 default"),
        ("-", "vLLM 0.32.0 default"),
    ]


def test_a_profile_that_a_platform_refuses_is_listed_with_the_reason(profile_file: WriteProfile) -> None:
    path = profile_file("pipeline: qwen3_tts\nasync_chunk: false\nmodel_runner: v2\n")
    cells, refusals = matrix(PLATFORMS, [str(path)])
    assert {platform for cell in cells for platform in cell.platforms} == {"cuda", "rocm", "musa"}
    assert [refusal.platforms for refusal in refusals] == [("npu", "xpu")]
    assert "does not run on this platform" in refusals[0].reason
