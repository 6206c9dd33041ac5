"""OC108: names under `env` that are nearly those of vLLM's or vLLM-Omni's variables."""

from __future__ import annotations

import pytest

from omnicfg.catalog.upstream import omni_variables
from omnicfg.catalog.vllm_args import known_variables
from tests.conftest import WriteProfile
from tests.rules.checked import findings, told

HEAD = "pipeline: qwen3_tts\nasync_chunk: false\nstages:\n"


def stage(name: str) -> str:
    return f"{HEAD}  - stage_id: 0\n    env: {{{name}: 1}}\n"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("VLLM_LOGING_LEVEL", "VLLM_LOGGING_LEVEL"),
        ("VLM_USE_MODELSCOPE", "VLLM_USE_MODELSCOPE"),
        ("vllm_logging_level", "VLLM_LOGGING_LEVEL"),
        ("VLLM-LOGGING-LEVEL", "VLLM_LOGGING_LEVEL"),
        ("VLLM_OMNI_STORGE_PATH", "VLLM_OMNI_STORAGE_PATH"),
        ("DIFFUSION_ATENTION_BACKEND", "DIFFUSION_ATTENTION_BACKEND"),
    ],
)
def test_a_slip_is_told_with_what_was_meant(profile_file: WriteProfile, written: str, meant: str) -> None:
    [found] = findings(profile_file(stage(written)), "OC108")
    assert (found.line, found.column, found.stage_id) == (5, 11, 0)
    assert found.message == f"neither vLLM nor vLLM-Omni has a variable `{written}`"
    assert found.help == f"Did you mean `{meant}`?"
    assert found.fix is not None
    assert [edit.text for edit in found.fix.edits] == [meant]
    assert not found.fix.safe


LIKE_NOTHING_KNOWN = ("VLLM_ASCEND_ENABLE_NZ",)
OF_OTHERS = ("MUSA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "HOME", "COSYVOICE2_TRT")


@pytest.mark.parametrize(
    "name", [*sorted(known_variables())[:3], *sorted(omni_variables()), *LIKE_NOTHING_KNOWN, *OF_OTHERS]
)
def test_other_names_are_left_alone(profile_file: WriteProfile, name: str) -> None:
    assert told(profile_file(stage(name)), "OC108") == []


def test_it_looks_wherever_variables_are_written(profile_file: WriteProfile) -> None:
    runtime = f"{HEAD}  - stage_id: 0\n    runtime: {{env: {{VLLM_LOGING_LEVEL: DEBUG}}}}\n"
    platform = "platforms:\n  npu:\n    stages:\n      - {stage_id: 0, env: {VLLM_LOGING_LEVEL: DEBUG}}\n"
    found = findings(profile_file(runtime + platform), "OC108")
    assert [(one.line, one.platform) for one in found] == [(5, None), (9, "npu")]
