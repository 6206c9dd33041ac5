"""Which rows a plan asks of its first stage: by the model's record, its config.json, and who reads them."""

from __future__ import annotations

from typing import Any

import pytest

import omnicfg
from omnicfg.engine.spec import PayloadRows
from omnicfg.payload import rows_of, rows_record

QWEN3: dict[str, Any] = {
    "architectures": ["Qwen3OmniMoeForConditionalGeneration"],
    "thinker_config": {"text_config": {"num_hidden_layers": 48}},
    "talker_config": {"accept_hidden_layer": 24},
}
MEASURES = {"grid": ("image_grid_thw", "video_grid_thw"), "seconds": ("second_per_grid_ts",)}
"""What its Talker has to know of pictures and videos in the prompt."""


@pytest.mark.parametrize(
    ("profile", "config", "rows"),
    [
        ("qwen3_omni_moe", QWEN3, PayloadRows((24,), final=False, measures=MEASURES)),
        (
            "qwen3_omni_moe",
            {**QWEN3, "talker_config": {"accept_hidden_layer": 18}},
            PayloadRows((18,), final=False, measures=MEASURES),
        ),
        ("qwen2_5_omni", {"architectures": ["Qwen2_5OmniModel"]}, PayloadRows((), final=True)),
        ("minicpmo_4_5_turn", {"architectures": ["MiniCPMO"]}, PayloadRows((), final=True)),
    ],
)
def test_a_stage_that_feeds_another_keeps_what_the_record_says(
    profile: str, config: dict[str, Any], rows: PayloadRows
) -> None:
    assert rows_of(omnicfg.resolve(profile), config) == rows


@pytest.mark.parametrize(
    ("profile", "pipeline"), [("qwen3_omni_moe_thinking", "qwen3_omni_moe_thinker_only"), ("qwen3_tts", None)]
)
def test_a_stage_that_nobody_reads_from_keeps_none(profile: str, pipeline: str | None) -> None:
    plan = omnicfg.resolve(profile, pipeline=pipeline)
    assert rows_record(plan) is None
    assert rows_of(plan, QWEN3) is None
