"""vLLM upgrades: settings that go, values that are no longer taken, defaults that reach a stage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from omnicfg.catalog.paths import load_json
from omnicfg.errors import UsageError
from omnicfg.upgrade import upgrade, versions_of
from tests.conftest import WriteProfile

Effects = Callable[..., list[tuple[Any, ...]]]
PLATFORMS = ("cuda", "npu", "rocm", "xpu", "musa")


@pytest.fixture
def effects(profile_file: WriteProfile) -> Effects:
    """(kind, stage, key, before, after, line) of what an upgrade does to the settings of stage 0."""

    def found(settings: str, before: str = "0.31.0", after: str = "0.32.0") -> list[tuple[Any, ...]]:
        path = profile_file(f"pipeline: qwen3_tts\nasync_chunk: false\nstages:\n  - stage_id: 0\n{settings}")
        (each,) = upgrade("vllm", before, after, [path], PLATFORMS).profiles
        assert all(platforms == PLATFORMS for _, platforms in each.effects)
        return [
            (effect.kind, effect.stage_id, effect.key, effect.before, effect.after, effect.mark and effect.mark.line)
            for effect, _ in each.effects
        ]

    return found


def test_a_default_that_changes_reaches_the_stages_that_leave_it_open(effects: Effects) -> None:
    assert effects("    disable_cascade_attn: true\n") == [
        ("default", 1, "disable_cascade_attn", True, None, None),
        ("deprecated", 0, "disable_cascade_attn", True, True, 5),
    ]


def test_a_setting_inside_a_config_that_goes(effects: Effects) -> None:
    settings = '    kv_transfer_config:\n      kv_connector: X\n      kv_ip: "10.0.0.1"\n'
    assert ("removed", 0, "kv_transfer_config.kv_ip", "10.0.0.1", None, 7) in effects(settings)
    back = effects(settings, "0.32.0", "0.31.0")
    assert not [effect for effect in back if effect[0] == "removed"]


def test_values_that_are_taken_no_longer_or_only_now(effects: Effects) -> None:
    assert ("refused", 0, "mamba_cache_mode", "all", None, 5) in effects("    mamba_cache_mode: all\n")
    assert ("accepted", 0, "kv_cache_dtype", "ultraquant_4bit", "ultraquant_4bit", 5) in effects(
        "    kv_cache_dtype: ultraquant_4bit\n"
    )
    assert ("refused", 0, "kv_cache_dtype", "ultraquant_4bit", None, 5) in effects(
        "    kv_cache_dtype: ultraquant_4bit\n", "0.32.0", "0.31.0"
    )
    assert not [effect for effect in effects("    kv_cache_dtype: fp8\n") if effect[2] == "kv_cache_dtype"]


def test_releases_that_are_no_neighbours_are_compared_too(effects: Effects) -> None:
    keys = {effect[2] for effect in effects("    max_num_seqs: 8\n", "0.31.0", "0.33.0")}
    assert keys == {"disable_cascade_attn", "mamba_cache_mode"}


def test_neighbours_are_compared_as_the_shipped_changes_say(profile_file: WriteProfile) -> None:
    path = profile_file("pipeline: qwen3_tts\nasync_chunk: false\nstages: []\n")
    for pair, changes in load_json("schemas/vllm/changes.json").items():
        before, after = pair.split("..")
        assert upgrade("vllm", before, after, [path], ("cuda",)).added == tuple(changes["added"])


def test_stages_of_another_engine_are_left_alone() -> None:
    found = upgrade("vllm", "0.31.0", "0.32.0", ["glm_image"], ("cuda",))
    stages = {effect.stage_id for each in found.profiles for effect, _ in each.effects}
    assert stages == {0}


def test_what_is_not_shipped_is_said_with_what_is() -> None:
    with pytest.raises(UsageError) as caught:
        upgrade("vllm", "0.30.0", "0.32.0", [], PLATFORMS)
    assert caught.value.diagnostics[0].help == f"Did you mean `0.33.0`? Shipped: {', '.join(versions_of('vllm'))}."


def test_a_profile_that_does_not_compile_is_told(profile_file: WriteProfile) -> None:
    found = upgrade("vllm", "0.31.0", "0.32.0", [profile_file("pipeline: nosuch\n")], PLATFORMS)
    assert [reason.name for reason in found.profiles[0].reasons] == ["unknown-pipeline"]
    assert not found.differs
