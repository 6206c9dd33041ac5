"""Where a key belongs."""

from __future__ import annotations

import pytest

from omnicfg.where import belongs


@pytest.mark.parametrize(
    ("key", "place"),
    [
        ("async_chunk", ("the whole profile", "async_chunk")),
        ("enable_prefix_caching", ("the whole profile", "enable_prefix_caching")),  # a stage's, too
        ("duplex_session.max_sessions", ("the whole profile", "duplex_session.max_sessions")),
        ("devices", ("a stage", "stages.2.devices")),
        ("env.A", ("a stage", "stages.2.env.A")),
        ("max_num_seqs", ("a stage", "stages.2.max_num_seqs")),
        ("seed", ("a stage", "stages.2.seed")),  # vLLM's, not that of the sampling parameters
        ("temperature", ("a stage's sampling parameters", "stages.2.default_sampling_params.temperature")),
    ],
)
def test_a_key_of_the_language(key: str, place: tuple[str, str]) -> None:
    assert belongs(key, 2) == place


@pytest.mark.parametrize("key", ["stages", "stage_id", "platforms.npu", "base_config", "no_such_key", ""])
def test_what_is_no_setting(key: str) -> None:
    assert belongs(key) is None
