"""vLLM-Omni upgrades, between two releases whose data are shipped."""

from __future__ import annotations

from typing import Any

import pytest

from omnicfg.upgrade import upgrade, versions_of, vllm_omni
from tests.conftest import WriteProfile

BEFORE, AFTER = "0.30.0", "0.32.0rc1"
PLATFORMS = ("cuda", "npu")


def effects(path: Any, before: str = BEFORE, after: str = AFTER) -> list[tuple[Any, ...]]:
    found = upgrade("vllm-omni", before, after, [path], PLATFORMS)
    return [
        (effect.kind, effect.stage_id, effect.key, effect.before, effect.after)
        for each in found.profiles
        for effect, _ in each.effects
    ]


def test_the_releases_are_found_by_their_data_oldest_first() -> None:
    assert versions_of("vllm-omni") == ("0.28.0", BEFORE, AFTER)


def test_a_default_of_the_profile_that_it_leaves_in_force(profile_file: WriteProfile) -> None:
    assert ("default", None, "async_chunk", True, None) in effects(profile_file("pipeline: qwen3_tts\n"))
    assert ("default", None, "async_chunk", True, None) not in effects(
        profile_file("pipeline: qwen3_tts\nasync_chunk: true\n")
    )


def test_keys_that_a_release_begins_or_ceases_to_read(profile_file: WriteProfile) -> None:
    path = profile_file(
        "pipeline: qwen3_tts\nasync_chunk: false\nconnectors:\n  shm:\n    name: SharedMemoryConnector\n"
        "    extra: {codec_fused_snake: true}\nstages:\n  - stage_id: 0\n    enable_cuda_graph_decode: true\n"
        "    auxiliary_text_encoder: x\n    default_sampling_params: {prompt_logprob_start: 1}\n"
    )
    found = effects(path)
    assert ("read", None, "connectors.shm.extra.codec_fused_snake", None, True) in found
    assert ("read", 0, "enable_cuda_graph_decode", None, True) in found
    assert ("removed", 0, "auxiliary_text_encoder", "x", None) in found
    assert ("read", 0, "default_sampling_params.prompt_logprob_start", None, 1) in found
    back = effects(path, AFTER, BEFORE)
    assert ("removed", None, "connectors.shm.extra.codec_fused_snake", True, None) in back


def test_a_pipeline_that_is_gone(profile_file: WriteProfile) -> None:
    assert effects(profile_file("pipeline: pi05\n")) == [("pipeline", None, "pipeline", "pi05", None)]


def test_what_the_pipeline_itself_says_of_a_stage() -> None:
    found = effects("higgs_multimodal_qwen3")
    assert ("topology", 1, "requires_full_payload_input", False, True) in found


def test_what_a_profile_sets_itself_is_not_the_topologys(profile_file: WriteProfile) -> None:
    path = profile_file(
        "pipeline: higgs_audio_v3\nstages:\n  - {stage_id: 1, requires_full_payload_input: false}\n", "higgs.yaml"
    )
    keys = {effect[2] for effect in effects(path)}
    assert "requires_full_payload_input" not in keys


def test_the_same_release_changes_nothing() -> None:
    assert effects("qwen3_tts", BEFORE, BEFORE) == []


def test_pipelines_of_this_project_are_not_upstreams() -> None:
    assert effects("tiny-omni") == []


def test_what_is_new_is_listed_once() -> None:
    added = vllm_omni.Releases(BEFORE, AFTER).added
    assert {"cuda_mps", "stages.*.model_runner", "duplex_session.replica_policy", "pipeline yue2"} <= set(added)


@pytest.mark.parametrize("release", versions_of("vllm-omni"))
def test_every_release_has_what_the_comparison_reads(release: str) -> None:
    releases = vllm_omni.Releases(release, release)
    assert releases.added == ()
    assert releases.deploy[0]["vllm_omni"] == release
