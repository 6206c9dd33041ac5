"""OC701: settings that are accepted in vain."""

from __future__ import annotations

import pytest

import omnicfg
from tests.conftest import WriteProfile
from tests.rules.checked import findings, told
from tests.rules.places import PLACES, set_at, wrong_file

IMAGE = "pipeline: glm_image\nasync_chunk: false\nstages:\n  - stage_id: 0\n  - stage_id: 1\n"


@pytest.mark.parametrize("place", PLACES)
def test_in_every_place_once(profile_file: WriteProfile, place: str) -> None:
    found = set_at(place, profile_file, "num_gpus", "8")
    assert [one.code for one in found] == ["OC701"]
    assert found[0].message.startswith("`num_gpus` in stage 0 changes nothing: it is computed from the parallel sizes")
    assert found[0].path.endswith(wrong_file(place))
    assert found[0].platform == ("npu" if place == "platform" else None)


@pytest.mark.parametrize("block", ["engine_args", "engine_extras"])
def test_in_the_other_spellings_of_a_stage(profile_file: WriteProfile, block: str) -> None:
    text = f"pipeline: qwen3_tts\nasync_chunk: false\nstages:\n  - stage_id: 0\n    {block}: {{num_gpus: 8}}\n"
    (found,) = findings(profile_file(text), "OC701")
    assert found.message.startswith(f"`num_gpus` in `{block}` of stage 0 changes nothing")


def test_settings_of_text_engines_on_a_diffusion_stage(profile_file: WriteProfile) -> None:
    text = IMAGE + (
        "    async_scheduling: true\n    mm_processor_cache_gb: 1\n    gpu_memory_utilization: 0.4\n"
        "    max_model_len: 99\n    enable_chunked_prefill: true\n"
    )
    found = omnicfg.validate(profile_file(text))
    assert [(one.code, one.line, one.column, one.stage_id) for one in found] == [
        ("OC701", 6, 5, 1),
        ("OC701", 7, 5, 1),
        ("OC701", 10, 5, 1),
    ]
    assert found[0].help == (
        "Remove it; it is a setting of llm_ar and llm_generation stages, and this one is diffusion."
    )


def test_the_topology_is_not_for_a_profile_to_change(profile_file: WriteProfile) -> None:
    text = "pipeline: qwen3_tts\nasync_chunk: false\nstages:\n  - stage_id: 0\n"
    text += "    final_output: true\n    final_output_type: video\n    is_comprehension: false\n"
    found = omnicfg.validate(profile_file(text))
    assert [(one.code, one.line, one.column) for one in found] == [("OC701", 5, 5), ("OC701", 6, 5), ("OC701", 7, 5)]
    assert {one.message.partition(": ")[2] for one in found} == {"the pipeline's topology decides it"}


def test_what_the_topology_says_too_does_no_harm(profile_file: WriteProfile) -> None:
    text = "pipeline: qwen3_tts\nasync_chunk: false\nstages:\n  - {stage_id: 0, final_output: false}\n"
    assert told(profile_file(text), "OC701") == []


def test_the_same_keys_where_they_are_read(profile_file: WriteProfile) -> None:
    text = IMAGE.replace("0\n", "0\n    async_scheduling: true\n    mm_processor_cache_gb: 1\n", 1)
    assert told(profile_file(text), "OC701") == []


def test_a_setting_for_all_stages_may_miss_some(profile_file: WriteProfile) -> None:
    assert told(profile_file("enable_chunked_prefill: true\n" + IMAGE), "OC701") == []


def test_null_asks_for_nothing(profile_file: WriteProfile) -> None:
    assert told(profile_file(IMAGE + "    async_scheduling: null\n"), "OC701") == []


def test_where_the_stage_is_not_known_nothing_is(profile_file: WriteProfile) -> None:
    assert told(profile_file("stages: [{stage_id: 0, num_gpus: 1}]\n", "unknown.yaml"), "OC701") == []


def test_the_fix_takes_the_key_away(profile_file: WriteProfile) -> None:
    profile = profile_file("pipeline: qwen3_tts\nasync_chunk: false\nstages:\n  - stage_id: 0\n    num_gpus: 8\n")
    (found,) = findings(profile, "OC701")
    assert found.fix is not None
    assert found.fix.safe
    (edit,) = found.fix.edits
    assert (edit.mark.line, edit.mark.end_line, edit.text) == (5, 6, "")
