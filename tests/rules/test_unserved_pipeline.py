"""OC505: pipelines that begin with something else than text, and the engines that serve them."""

from __future__ import annotations

import pytest

from omnicfg.diagnostics import Severity
from tests.conftest import WriteProfile
from tests.rules.checked import findings, told


def test_a_first_stage_that_speaks_is_pointed_at(profile_file: WriteProfile) -> None:
    path = profile_file("pipeline: qwen3_tts\nstages:\n  - stage_id: 0\n    max_num_seqs: 8\n")
    [found] = findings(path, "OC505", engine="bundled")
    assert found.message == "stage 0 (qwen3_tts) of pipeline qwen3_tts does not answer in text"
    assert found.help == "Serve it with vLLM-Omni (`--engine vllm-omni`)."
    assert (found.line, found.stage_id, found.severity) == (3, 0, Severity.ERROR)


@pytest.mark.parametrize("pipeline", ["qwen3_omni_moe", "qwen3_omni_moe_thinker_only", "minicpmo_4_5"])
def test_a_first_stage_that_writes_is_served(pipeline: str, profile_file: WriteProfile) -> None:
    assert told(profile_file(f"pipeline: {pipeline}\n"), "OC505", engine="bundled") == []


def test_vllm_omni_serves_what_speaks_first(profile_file: WriteProfile) -> None:
    assert told(profile_file("pipeline: qwen3_tts\n"), "OC505") == []


@pytest.mark.parametrize("pipeline", ["ming_image", "minimax_h3_disaggregated"])
def test_a_checkpoint_that_code_of_vllm_omni_finds_is_told(pipeline: str, profile_file: WriteProfile) -> None:
    path = profile_file(f"pipeline: {pipeline}\nasync_chunk: false\n")
    said = [message for *_, message in told(path, "OC505", engine="bundled")]
    assert f"pipeline {pipeline} finds its checkpoint by code of vLLM-Omni" in said
