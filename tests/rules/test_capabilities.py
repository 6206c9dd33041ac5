"""OC501 and OC502: what the models' records say against a setting, and nothing else."""

from __future__ import annotations

import pytest

import omnicfg
from omnicfg.diagnostics import Severity
from tests.conftest import WriteProfile
from tests.rules.checked import findings, told

QWEN = "pipeline: qwen3_omni_moe\nstages:\n  - {stage_id: 0, enable_prefix_caching: true}\n"
OFF = "  - {stage_id: 1, enable_prefix_caching: false}\n"


def test_qwen3_omni_in_turn_mode_may_have_its_cache_on(profile_file: WriteProfile) -> None:
    assert told(profile_file(QWEN + OFF), "OC501") == []


def test_qwen3_omni_under_mrv2_is_an_error_that_cites_its_evidence(profile_file: WriteProfile) -> None:
    found = findings(profile_file(QWEN + OFF + "model_runner: v2\n"), "OC501")
    assert [(one.line, one.column, one.severity, one.platform, one.stage_id) for one in found] == [
        (3, 42, Severity.ERROR, "cuda,rocm,musa", 0)
    ]
    assert found[0].message.startswith(
        "the prefix cache of stage 0 (thinker) is on, but for Qwen3-Omni it is unvalidated here: "
    )
    assert found[0].message.endswith("]")
    assert found[0].help == "Set `enable_prefix_caching: false` for stage 0."


def test_qwen3_omni_in_duplex_is_an_error(profile_file: WriteProfile) -> None:
    found = findings(profile_file(QWEN + OFF + "session_mode: duplex\n"), "OC501")
    assert [(one.line, one.column, one.severity, one.platform) for one in found] == [(3, 42, Severity.ERROR, None)]


@pytest.mark.parametrize("mode", ["model_runner: v2", "session_mode: duplex"])
def test_minicpm_o_under_mrv2_or_duplex_is_an_error(profile_file: WriteProfile, mode: str) -> None:
    text = f"pipeline: minicpmo_4_5\n{mode}\nstages:\n  - {{stage_id: 0, enable_prefix_caching: true}}\n"
    text += "".join(f"  - {{stage_id: {stage}, enable_prefix_caching: false}}\n" for stage in (1, 2))
    found = findings(profile_file(text), "OC501", platform="cuda")
    assert [(one.line, one.column, one.severity, one.stage_id) for one in found] == [(4, 42, Severity.ERROR, 0)]


def test_minicpm_o_in_turn_mode_may_have_its_cache_on(profile_file: WriteProfile) -> None:
    text = "pipeline: minicpmo_4_5\nsession_mode: turn\nstages:\n  - {stage_id: 0, enable_prefix_caching: true}\n"
    text += "".join(f"  - {{stage_id: {stage}, enable_prefix_caching: false}}\n" for stage in (1, 2))
    assert told(profile_file(text), "OC501") == []  # unvalidated but for CUDA, which is no reason to refuse it


def test_what_differs_among_platforms_is_one_finding_that_says_where(profile_file: WriteProfile) -> None:
    others = "".join(f"  {name}: {{model_runner: v1}}\n" for name in ("npu", "rocm", "xpu", "musa"))
    stages = "stages:\n  - {stage_id: 0, enable_prefix_caching: true}\n"
    profile = profile_file(f"pipeline: qwen3_tts\nmodel_runner: v2\n{stages}platforms:\n{others}")
    [found] = findings(profile, "OC501")
    assert (found.platform, found.severity) == (None, Severity.NOTE)
    assert "for Qwen3-TTS it is without benefit on cuda: The first audio packet comes" in found.message
    assert "]; without benefit on npu, rocm, xpu and musa: Hits only on exact repeats" in found.message
    [alone] = findings(profile, "OC501", platform="cuda")
    assert "without benefit here: The first audio packet comes" in alone.message


MINICPM = "pipeline: minicpmo_4_5\nstages:\n  - {stage_id: 0, enable_prefix_caching: true}\n" + "".join(
    f"  - {{stage_id: {stage}, enable_prefix_caching: false}}\n" for stage in (1, 2)
)


@pytest.mark.parametrize(
    ("profile", "mode", "engine", "refused"),
    [
        (QWEN + OFF, "model_runner: v2", "vllm-omni", True),
        (QWEN + OFF, "model_runner: v2", "bundled", False),
        (QWEN + OFF, "session_mode: duplex", "vllm-omni", True),
        (QWEN + OFF, "session_mode: duplex", "bundled", True),
        (QWEN + OFF, "session_mode: duplex\nmodel_runner: v2", "bundled", True),
        (MINICPM, "session_mode: turn\nmodel_runner: v2", "vllm-omni", True),
        (MINICPM, "session_mode: turn\nmodel_runner: v2", "bundled", False),
        (MINICPM, "session_mode: duplex", "bundled", True),
    ],
)
def test_a_cache_under_mrv2_depends_on_the_engine(
    profile_file: WriteProfile, profile: str, mode: str, engine: str, refused: bool
) -> None:
    found = findings(profile_file(f"{profile}{mode}\n"), "OC501", platform="cuda", engine=engine)
    assert [(one.severity, one.stage_id) for one in found] == ([(Severity.ERROR, 0)] if refused else [])


def test_duplex_is_an_error_for_the_bundled_engine_whatever_the_cache(profile_file: WriteProfile) -> None:
    profile = profile_file(QWEN.replace("true", "false") + OFF + "session_mode: duplex\n")
    [found] = findings(profile, "OC502", engine="bundled")
    assert (found.severity, found.line, found.stage_id) == (Severity.ERROR, 5, 0)
    assert "This engine serves turns" in found.message
    assert findings(profile, "OC502", engine="vllm-omni") == []


def test_auras_duplex_with_the_cache_on_is_validated() -> None:
    assert omnicfg.resolve("aura_omni").deploy.value("session_mode") == "duplex"
    found = omnicfg.validate("aura_omni")
    assert [one for one in found if one.code == "OC501" or one.severity is Severity.ERROR] == []


def test_a_talker_whose_cache_is_left_to_vllm_is_pointed_at_its_entry(profile_file: WriteProfile) -> None:
    found = findings(profile_file(QWEN + "  - stage_id: 1\n"), "OC501")
    assert [(one.line, one.column, one.severity, one.stage_id) for one in found] == [(4, 15, Severity.WARNING, 1)]
    assert "is unset, and vLLM's default is on, but for Qwen3-Omni it is broken here" in found[0].message


def test_a_stage_that_the_profile_does_not_mention_is_reported_at_the_start(profile_file: WriteProfile) -> None:
    found = findings(profile_file(QWEN), "OC501")
    assert [(one.line, one.column, one.stage_id) for one in found] == [(1, 1, 1)]


def test_in_an_overlay_and_in_a_setting(profile_file: WriteProfile) -> None:
    profile = profile_file(QWEN + OFF)
    overlay = profile_file("stages:\n  - stage_id: 1\n    enable_prefix_caching: true\n", "overlay.yaml")
    (found,) = findings(profile, "OC501", overlays=[overlay])
    assert (found.path, found.line, found.column, found.stage_id) == (str(overlay), 3, 28, 1)
    (found,) = findings(profile, "OC501", overrides=["stages.1.enable_prefix_caching=true"])
    assert (found.path, found.line, found.column) == ("--set stages.1.enable_prefix_caching=true", 1, 32)


def test_a_mode_nobody_declared(profile_file: WriteProfile) -> None:
    text = "pipeline: cosyvoice3\nmodel_runner: v2\nstages: [{stage_id: 0, enable_prefix_caching: false}]\n"
    (found,) = findings(profile_file(text), "OC502", platform="cuda")
    assert (found.line, found.column, found.severity) == (2, 15, Severity.WARNING)
    assert found.message.startswith("no stage of pipeline cosyvoice3 declares MRv2's data plane")


def test_the_bundled_engine_needs_no_data_plane(profile_file: WriteProfile) -> None:
    profile = profile_file(QWEN + OFF + "model_runner: v2\n")
    assert told(profile, "OC502", platform="cuda", engine="bundled") == []
    assert len(told(profile, "OC502", platform="cuda", engine="vllm-omni")) == 1


def test_the_older_runner_needs_no_declaration(profile_file: WriteProfile) -> None:
    text = "pipeline: cosyvoice3\nmodel_runner: v1\nstages: [{stage_id: 0, enable_prefix_caching: false}]\n"
    assert told(profile_file(text), "OC502") == []
