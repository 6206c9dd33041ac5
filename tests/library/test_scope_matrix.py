"""The review's matrix: the prefix cache of stages 0, 1 and 2, as it takes effect, by profile and platform.

Resolved to final engine args, so that a change of merge order, of a base or of a platform block shows here.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import omnicfg
from omnicfg.catalog.paths import profiles_dir

PLATFORMS = ("cuda", "npu", "rocm", "xpu", "musa")

# One word a stage: on, off, or unset (then vLLM's default applies, which is on).
MATRIX = """
profile                      | cuda         | npu          | rocm         | xpu          | musa
-----------------------------+--------------+--------------+--------------+--------------+-------------
qwen3_omni_moe               | on  off off  | on  off off  | on  off off  | on  off off  | on  off off
qwen3_omni_moe_mrv2          | off off off  | off off off  | off off off  | off off off  | off off off
qwen3_omni_duplex            | off off off  | off off off  | off off off  | off off off  | off off off
qwen3_omni_duplex_mrv2       | off off off  | off off off  | off off off  | off off off  | off off off
qwen3_omni_moe_thinking      | on           | on           | on           | on           | on
minicpmo_4_5                 | off off off  | off off off  | off off off  | off off off  | off off off
minicpmo_4_5_turn            | on  off off  | off off off  | off off off  | off off off  | off off off
minicpmo_4_5_turn_mrv2       | off off off  | off off off  | off off off  | off off off  | off off off
minicpmo_4_5_turn_mrv2_h200  | off off off  | off off off  | off off off  | off off off  | off off off
higgs_multimodal_qwen3       | on  off      | on  off      | on  off      | on  off      | on  off
audex_thinker_only           | on           | on           | on           | on           | on
audex_s2s                    | on  off      | on  off      | on  off      | on  off      | on  off
audex_tts                    | on  off      | on  off      | on  off      | on  off      | on  off
audex_tta                    | on  off      | on  off      | on  off      | on  off      | on  off
joyai_vl_interaction         | on  off off  | on  off off  | on  off off  | on  off off  | on  off off
aura_omni                    | on  on  off  | on  on  off  | on  on  off  | on  on  off  | on  on  off
qwen2_5_omni                 | off off off  | off off off  | off off off  | off off off  | off off off
step_audio_2_asr             | off          | off          | off          | off          | off
qwen3_tts                    | off off      | off off      | off off      | off off      | off off
qwen3_tts_v1                 | off off      | off off      | off off      | off off      | off off
qwen3_tts_mrv2               | off off      | off off      | off off      | off off      | off off
glm_image                    | on  off      | on  off      | on  off      | on  off      | on  off
moss_tts_local               | on  off      | on  off      | on  off      | on  off      | on  off
fish_qwen3_omni              | off off      | off off      | off off      | off off      | off off
voxtral_tts                  | off off      | off off      | off off      | off off      | off off
voxcpm2                      | off          | off          | off          | off          | off
cosyvoice3                   | off off      | off off      | off off      | off off      | off off
indextts2                    | off off      | off off      | off off      | off off      | off off
tiny_omni                    | on off off   | on off off   | on off off   | on off off   | on off off
"""


def expected() -> dict[str, dict[str, list[str]]]:
    """Profile → platform → the words of its stages."""
    header, _, *rows = (line.split("|") for line in MATRIX.strip().splitlines())
    platforms = [cell.strip() for cell in header[1:]]
    return {row[0].strip(): dict(zip(platforms, map(str.split, row[1:]), strict=True)) for row in rows}


def effective(profile: str, platform: str) -> list[str]:
    """What the final engine args of stages 0, 1 and 2 say."""
    words = {True: "on", False: "off", None: "unset"}
    stages = omnicfg.resolve(profile, platform=platform).to_dict()["stages"]
    return [words[stage["engine_args"].get("enable_prefix_caching")] for stage in stages if stage["stage_id"] < 3]


@pytest.mark.parametrize("profile", expected())
def test_effective_prefix_caching(profile: str) -> None:
    assert {platform: effective(profile, platform) for platform in PLATFORMS} == expected()[profile]


def test_the_matrix_names_every_shipped_profile() -> None:
    assert set(expected()) == {path.stem for path in profiles_dir().glob("*.yaml")}


@pytest.mark.parametrize("profile", ["qwen3_omni_duplex_mrv2", "minicpmo_4_5_turn_mrv2_h200"])
def test_off_by_inheritance_alone(profile: str) -> None:
    """The profile itself says nothing of the prefix cache: it follows whatever its base says."""
    text = (profiles_dir() / f"{profile}.yaml").read_text("utf-8")
    assert "base_config: " in text
    assert "enable_prefix_caching" not in text


@pytest.mark.parametrize(
    ("overlay", "on"),
    [
        ("stages: [{stage_id: 0, enable_prefix_caching: false}]", True),
        ("platforms: {cuda: {stages: [{stage_id: 0, enable_prefix_caching: false}]}}", False),
    ],
    ids=["in the stage", "in the platform's block"],
)
def test_an_overlay_turns_off_what_a_platform_block_turned_on_only_there(
    overlay: str, on: bool, tmp_path: Path
) -> None:
    """Why ``minicpmo_4_5_turn_mrv2.yaml`` switches the cache off in a cuda block of its own."""
    path = tmp_path / "overlay.yaml"
    path.write_text(overlay, encoding="utf-8")
    plan = omnicfg.resolve("minicpmo_4_5_turn", platform="cuda", overlays=[path])
    assert plan.stages[0].arg("enable_prefix_caching") is on
