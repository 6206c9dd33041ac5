"""OC706: engine args that one release of vLLM takes and the next does not."""

from __future__ import annotations

import pytest

import omnicfg
from omnicfg.diagnostics import Severity
from tests.conftest import WriteProfile
from tests.rules.checked import findings, told
from tests.rules.places import PLACES, set_at, wrong_file

HEAD = "pipeline: qwen3_tts\nasync_chunk: false\nstages:\n"


def test_what_the_release_calls_deprecated(profile_file: WriteProfile) -> None:
    profile = profile_file(HEAD + "  - {stage_id: 0, mamba_cache_mode: none}\n")
    assert told(profile, "OC706", engine="bundled") == []
    (found,) = findings(profile, "OC706", engine="bundled", vllm_version="0.33.0")
    assert (found.severity, found.line, found.column, found.stage_id) == (Severity.WARNING, 4, 19, 0)
    assert found.message == "vLLM 0.33.0 calls `mamba_cache_mode` in stage 0 deprecated"
    assert found.help is not None
    assert found.help.startswith("vLLM says: --mamba-cache-mode is deprecated and will be removed")


@pytest.mark.parametrize("place", PLACES)
def test_a_field_that_the_next_release_gives_up_in_every_place_once(profile_file: WriteProfile, place: str) -> None:
    found = set_at(place, profile_file, "kv_transfer_config", "{kv_role: kv_producer, kv_rank: 0}")
    assert [(one.code, one.severity) for one in found] == [("OC706", Severity.NOTE)]
    assert found[0].message.startswith("vLLM 0.32.0 no longer takes `kv_rank` in `kv_transfer_config` of stage 0")
    assert found[0].path.endswith(wrong_file(place))
    assert found[0].platform == ("npu" if place == "platform" else None)


def test_for_the_release_that_has_given_it_up_it_is_an_unknown_key(profile_file: WriteProfile) -> None:
    profile = profile_file(HEAD + "  - {stage_id: 0, kv_transfer_config: {kv_role: kv_producer, kv_rank: 0}}\n")
    (found,) = omnicfg.validate(profile, vllm_version="0.32.0")
    assert (found.code, found.help) == (
        "OC101",
        "Of the shipped releases, vLLM 0.31.0 takes it; see `--vllm-version`.",
    )


def test_a_choice_that_a_later_release_gives_up(profile_file: WriteProfile) -> None:
    head = HEAD.replace("qwen3_tts", "qwen3_omni_moe_thinker_only")
    text = head + "  - {stage_id: 0, enable_prefix_caching: false, speculative_config: {method: medusa}}\n"
    (found,) = findings(profile_file(text), "OC706", engine="bundled")
    assert (found.severity, found.line, found.column) == (Severity.NOTE, 4, 70)
    assert found.message.startswith(
        "vLLM 0.33.0 no longer takes `method: medusa` in `speculative_config` of stage 0; it has to be one of "
    )
    (found,) = omnicfg.validate(profile_file(text), engine="bundled", vllm_version="0.33.0")
    assert (found.code, found.severity) == ("OC102", Severity.ERROR)


@pytest.mark.parametrize(
    "settings",
    [
        "max_num_seqs: 8",
        "kv_transfer_config: {kv_role: kv_producer, kv_rank: null}",
        "speculative_config: {method: ngram}",
        "speculative_config: {method: no_such_method}",
        "compilation_config: {cudagraph_mode: FULL}",
    ],
)
def test_what_all_releases_treat_alike(profile_file: WriteProfile, settings: str) -> None:
    assert told(profile_file(HEAD + f"  - {{stage_id: 0, {settings}}}\n"), "OC706") == []


def test_a_diffusion_stage_is_not_vllms(profile_file: WriteProfile) -> None:
    text = "pipeline: dreamzero\nstages:\n  - {stage_id: 0, kv_transfer_config: {kv_rank: 0}}\n"
    assert told(profile_file(text), "OC706") == []


def test_the_bundled_engine_takes_what_the_named_release_takes(profile_file: WriteProfile) -> None:
    profile = profile_file(HEAD + "  - {stage_id: 0, monokernel: true}\n")
    (found,) = findings(profile, "OC101", engine="bundled")
    assert found.message == "unknown key `monokernel` in stage 0"
    assert told(profile, "OC101", engine="bundled", vllm_version="0.33.0") == []
