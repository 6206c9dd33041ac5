"""OC107: a stage setting inside the free-form config of a plugin."""

from __future__ import annotations

import pytest

import omnicfg
from tests.conftest import WriteProfile
from tests.rules.checked import findings
from tests.rules.places import PLACES, set_at, wrong_file


@pytest.mark.parametrize("place", PLACES)
def test_wherever_the_config_stands(profile_file: WriteProfile, place: str) -> None:
    value = "{vae_use_slicing: true, plugin_switch: 1}"
    (found,) = set_at(place, profile_file, "additional_config", value, stage_id=1, pipeline="glm_image")
    assert found.code == "OC107"
    assert found.path.endswith(wrong_file(place))
    assert (found.stage_id, found.platform) == (1, "npu" if place == "platform" else None)
    assert found.message.startswith("`vae_use_slicing` under `additional_config` in stage 1 is not read there")


@pytest.mark.parametrize("block", ["engine_args", "engine_extras"])
def test_within_a_block_of_the_stage(profile_file: WriteProfile, block: str) -> None:
    text = f"stages:\n  - stage_id: 0\n    {block}: {{additional_config: {{max_num_seqs: 1}}}}\n"
    (found,) = findings(profile_file(f"pipeline: qwen3_tts\nasync_chunk: false\n{text}"), "OC107")
    assert (found.line, found.column) == (5, len(block) + 28)


def test_what_only_a_plugin_knows(profile_file: WriteProfile) -> None:
    text = "stages:\n  - stage_id: 0\n    additional_config: {torchair_graph_config: {enabled: true}, x: 1}\n"
    assert omnicfg.validate(profile_file(f"pipeline: qwen3_tts\nasync_chunk: false\n{text}")) == []
