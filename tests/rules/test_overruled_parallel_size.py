"""OC702: parallel sizes that something else decides."""

from __future__ import annotations

import pytest

import omnicfg
from tests.conftest import WriteProfile
from tests.rules.checked import findings, told
from tests.rules.places import PLACES, set_at, wrong_file

IMAGE = "pipeline: glm_image\nasync_chunk: false\nstages:\n  - stage_id: 0\n  - stage_id: 1\n"


def test_a_flat_size_beside_a_nested_one(profile_file: WriteProfile) -> None:
    profile = profile_file(IMAGE + "    tensor_parallel_size: 4\n    parallel_config: {tensor_parallel_size: 2}\n")
    found = omnicfg.validate(profile)
    assert [(one.code, one.line, one.column, one.stage_id, one.platform) for one in found] == [
        ("OC702", 6, 27, 1, None)
    ]
    assert found[0].message == (
        "`tensor_parallel_size: 4` of stage 1 does nothing: "
        f"`parallel_config.tensor_parallel_size: 2` counts ({profile}:7:45)"
    )


def test_on_a_stage_of_a_text_engine_too(profile_file: WriteProfile) -> None:
    text = "pipeline: qwen3_tts\nasync_chunk: false\nstages:\n  - stage_id: 0\n    tensor_parallel_size: 4\n"
    text += "    engine_args: {parallel_config: {tensor_parallel_size: 1}}\n"
    assert [(line, column) for line, column, _ in told(profile_file(text), "OC702")] == [(5, 27)]


@pytest.mark.parametrize("place", PLACES)
def test_a_sequence_parallel_size_in_every_place_once(profile_file: WriteProfile, place: str) -> None:
    found = set_at(place, profile_file, "sequence_parallel_size", "4", stage_id=1, pipeline="glm_image")
    assert [one.code for one in found] == ["OC702"]
    assert found[0].message.startswith(
        "`sequence_parallel_size: 4` of stage 1 does nothing: it is computed from the stage's degrees, and here it is 1"
    )
    assert found[0].path.endswith(wrong_file(place))
    assert found[0].platform == ("npu" if place == "platform" else None)


def test_the_devices_that_the_size_was_meant_for_are_no_second_mistake(profile_file: WriteProfile) -> None:
    text = IMAGE + "    sequence_parallel_size: 4\n    devices: '0,1,2,3'\n"
    assert [one.code for one in omnicfg.validate(profile_file(text))] == ["OC702"]


@pytest.mark.parametrize(
    "settings",
    [
        "    sequence_parallel_size: 4\n    ulysses_degree: 2\n    ring_degree: 2\n",
        "    sequence_parallel_size: 2\n    allgather_degree: 2\n",
        "    tensor_parallel_size: 2\n    parallel_config: {tensor_parallel_size: 2}\n",
        "    tensor_parallel_size: 2\n    parallel_config: {tensor_parallel_size: null, ulysses_degree: 2}\n",
        "    tensor_parallel_size: 2\n    parallel_config: {ulysses_degree: 2}\n",
    ],
)
def test_sizes_that_agree(profile_file: WriteProfile, settings: str) -> None:
    assert told(profile_file(IMAGE + settings), "OC702") == []


def test_a_stage_may_depart_from_what_holds_for_all(profile_file: WriteProfile) -> None:
    text = "data_parallel_size: 2\n" + IMAGE + "    parallel_config: {data_parallel_size: 1}\n"
    assert findings(profile_file(text), "OC702") == []
