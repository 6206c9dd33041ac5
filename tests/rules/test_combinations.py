"""OC605, OC703, OC704 and OC705: settings that exclude each other, or switch each other off."""

from __future__ import annotations

import pytest

import omnicfg
from tests.conftest import WriteProfile
from tests.rules.checked import findings, stage, told
from tests.rules.places import PLACES, set_at, wrong_file

TEXT = "pipeline: qwen3_tts\nasync_chunk: false\nstages:\n"
MOVIE = "pipeline: dreamzero\nstages:\n"


# ------------------------------------------------------------------------------------------------ prefix caches
@pytest.mark.parametrize("place", PLACES)
def test_a_diffusion_stages_cache_in_every_place_once(profile_file: WriteProfile, place: str) -> None:
    found = set_at(place, profile_file, "enable_prefix_caching", "true", pipeline="dreamzero", stages=[0])
    assert [one.code for one in found] == ["OC703"]
    assert found[0].path.endswith(wrong_file(place))
    assert found[0].platform == ("npu" if place == "platform" else None)


def test_a_cache_for_all_stages_reaches_the_diffusion_stage(profile_file: WriteProfile) -> None:
    text = "enable_prefix_caching: true\n" + MOVIE + stage(0)
    (found,) = findings(profile_file(text), "OC703")
    assert (found.line, found.column, found.stage_id) == (1, 24, 0)
    assert found.message == (
        "the prefix cache of stage 0 is on without `diffusion_kv_mode: paged_scheduler`, so the stage does not start"
    )
    assert found.help == "Set `enable_prefix_caching: false` for stage 0, or `diffusion_kv_mode: paged_scheduler`."


def test_a_paged_diffusion_stage_may_have_its_cache(profile_file: WriteProfile) -> None:
    paged = {"enable_prefix_caching": "true", "diffusion_kv_mode": "paged_scheduler"}
    assert told(profile_file(MOVIE + stage(0, **paged)), "OC703") == []
    (found,) = findings(profile_file(MOVIE + stage(0, **paged, enable_sleep_mode="true")), "OC703")
    assert found.help == "Set `enable_prefix_caching: false` for stage 0, or remove `enable_sleep_mode`."


def test_what_a_models_record_refuses_is_told_by_the_record(profile_file: WriteProfile) -> None:
    text = "pipeline: glm_image\nasync_chunk: false\nstages:\n" + stage(1, enable_prefix_caching="true")
    assert [one.code for one in omnicfg.validate(profile_file(text)) if one.stage_id == 1] == ["OC501"]


@pytest.mark.parametrize(
    ("settings", "beside"),
    [
        ({"kv_transfer_config": "{kv_role: kv_both}"}, "kv_transfer_config"),
        ({"kv_transfer_config": "{kv_role: kv_consumer}"}, "kv_transfer_config"),
        ({"decode_context_parallel_size": 2}, "decode_context_parallel_size"),
        ({"parallel_config": "{decode_context_parallel_size: 2}"}, "decode_context_parallel_size"),
        ({"prefix_match_unit": 8, "block_size": 16}, "prefix_match_unit"),
    ],
)
def test_what_a_text_stages_cache_cannot_stand_beside(
    profile_file: WriteProfile, settings: dict[str, object], beside: str
) -> None:
    (found,) = findings(profile_file(TEXT + stage(0, enable_prefix_caching="true", **settings)), "OC703")
    assert (found.line, found.column, found.stage_id) == (4, 42, 0)
    assert found.message.startswith(f"the prefix cache of stage 0 is on beside `{beside}` (")
    (found,) = findings(profile_file(TEXT + stage(0, **settings)), "OC703")
    assert found.message.startswith("the prefix cache of stage 0 is unset, and vLLM's default is on, beside")
    assert told(profile_file(TEXT + stage(0, enable_prefix_caching="false", **settings)), "OC703") == []


def test_the_setting_that_came_later_is_the_one_that_is_named(profile_file: WriteProfile) -> None:
    head = "pipeline: qwen3_tts\nasync_chunk: false\nstages:\n"
    base = profile_file(head + "  - {stage_id: 0, enable_prefix_caching: true}\n", "base.yaml")
    above = "base_config: base.yaml\nstages:\n  - {stage_id: 0, kv_transfer_config: {kv_role: kv_both}}\n"
    top = profile_file(above, "top.yaml")
    (found,) = findings(top, "OC703")
    assert (found.path, found.line) == (str(top), 3)
    assert found.message == (
        f"the prefix cache of stage 0 is on ({base}:4:42) beside `kv_transfer_config`, so the stage does not start"
    )
    base = profile_file("pipeline: dreamzero\nstages:\n  - {stage_id: 0, allgather_degree: 2}\n", "wide.yaml")
    top = profile_file("base_config: wide.yaml\nstages:\n  - {stage_id: 0, ring_degree: 2}\n", "both.yaml")
    assert [(found.path, found.line, found.column) for found in findings(top, "OC705")] == [(str(top), 3, 32)]
    base = profile_file("pipeline: dreamzero\nstages:\n  - {stage_id: 0, ring_degree: 2}\n", "wide.yaml")
    top = profile_file("base_config: wide.yaml\nstages:\n  - {stage_id: 0, allgather_degree: 2}\n", "both.yaml")
    (found,) = findings(top, "OC705")
    assert (found.path, found.message) == (
        str(top),
        f"`allgather_degree: 2` of stage 0 cannot stand beside `ring_degree: 2` ({base}:3:32)",
    )


@pytest.mark.parametrize(
    "settings",
    [
        {"kv_transfer_config": "{kv_role: kv_producer}"},
        {"decode_context_parallel_size": 1},
        {"prefix_match_unit": 16, "block_size": 16},
        {"prefix_match_unit": 16},
        {"runner": "pooling", "kv_transfer_config": "{kv_role: kv_both}"},
    ],
)
def test_what_it_can_stand_beside(profile_file: WriteProfile, settings: dict[str, object]) -> None:
    assert told(profile_file(TEXT + stage(0, enable_prefix_caching="true", **settings)), "OC703") == []


def test_the_bundled_engine_keeps_no_mirror(profile_file: WriteProfile) -> None:
    text = TEXT + stage(0, enable_prefix_caching="true", decode_context_parallel_size=2)
    assert told(profile_file(text), "OC703", engine="bundled") == []


# ------------------------------------------------------------------------------------------------- switched off
@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ("compilation_config: {cudagraph_mode: FULL}", "compilation_config.cudagraph_mode"),
        ("compilation_config: {cudagraph_capture_sizes: [1, 2]}", "compilation_config.cudagraph_capture_sizes"),
        ("compilation_config: {mode: 3}", "compilation_config.mode"),
        ("max_cudagraph_capture_size: 8", "max_cudagraph_capture_size"),
    ],
)
def test_graphs_under_eager(profile_file: WriteProfile, settings: str, name: str) -> None:
    profile = profile_file(TEXT + f"  - stage_id: 0\n    enforce_eager: true\n    {settings}\n")
    (found,) = omnicfg.validate(profile)
    assert (found.code, found.line, found.stage_id) == ("OC704", 6, 0)
    assert found.message == f"`{name}` of stage 0 does nothing beside `enforce_eager: true` ({profile}:5:20)"


@pytest.mark.parametrize(
    "settings",
    [
        "compilation_config: {cudagraph_mode: NONE}",
        "compilation_config: {cudagraph_mode: none, mode: 0}",
        "compilation_config: {custom_ops: [all]}",
        "compilation_config: {cudagraph_capture_sizes: []}",
    ],
)
def test_what_says_that_it_is_off_is_in_order(profile_file: WriteProfile, settings: str) -> None:
    text = TEXT + f"  - stage_id: 0\n    enforce_eager: true\n    {settings}\n"
    assert told(profile_file(text), "OC704") == []


def test_a_file_on_top_may_switch_off(profile_file: WriteProfile) -> None:
    graphs = TEXT + "  - {stage_id: 0, compilation_config: {cudagraph_mode: FULL}}\n"
    profile_file(graphs, "base.yaml")
    eager = "stages: [{stage_id: 0, enforce_eager: true}]\n"
    assert told(profile_file("base_config: base.yaml\n" + eager, "top.yaml"), "OC704") == []
    assert told(profile_file(graphs), "OC704", overlays=[profile_file(eager, "overlay.yaml")]) == []
    assert told(profile_file(graphs), "OC704", overrides=["stages.0.enforce_eager=true"]) == []
    platform = graphs + "platforms:\n  npu:\n    stages: [{stage_id: 0, enforce_eager: true}]\n"
    assert told(profile_file(platform), "OC704") == []


def test_a_platforms_block_that_says_both(profile_file: WriteProfile) -> None:
    text = TEXT + (
        "  - stage_id: 0\nplatforms:\n  npu:\n    stages:\n"
        "      - {stage_id: 0, enforce_eager: true, compilation_config: {cudagraph_mode: FULL}}\n"
    )
    (found,) = findings(profile_file(text), "OC704")
    assert (found.line, found.column, found.platform) == (8, 81, "npu")


def test_a_cache_config_without_a_backend(profile_file: WriteProfile) -> None:
    text = "pipeline: dreamzero\nstages:\n"
    assert told(profile_file(text + stage(0, cache_config="{rel_l1_thresh: 0.2}")), "OC704") == [
        (3, 33, "`cache_config` of stage 0 does nothing without a `cache_backend`")
    ]
    both = stage(0, cache_config="{rel_l1_thresh: 0.2}", cache_backend="tea_cache")
    assert told(profile_file(text + both), "OC704") == []


# ---------------------------------------------------------------------------------------------- parallel sizes
@pytest.mark.parametrize(
    ("settings", "other", "name"),
    [
        ("allgather_degree: 2, ulysses_degree: 2", "ulysses_degree: 2", "allgather_degree: 2"),
        ("allgather_degree: 2, parallel_config: {ring_degree: 2}", "ring_degree: 2", "allgather_degree: 2"),
        ("use_hsdp: true, tensor_parallel_size: 2", "tensor_parallel_size: 2", "use_hsdp: true"),
        ("use_hsdp: true, enable_expert_parallel: true", "enable_expert_parallel: true", "use_hsdp: true"),
    ],
)
def test_parallel_sizes_that_exclude_each_other(
    profile_file: WriteProfile, settings: str, other: str, name: str
) -> None:
    (found,) = findings(profile_file(f"pipeline: dreamzero\nstages: [{{stage_id: 0, {settings}}}]\n"), "OC705")
    assert found.line == 2
    assert found.message.startswith(f"`{other}` of stage 0 cannot stand beside `{name}` (")


@pytest.mark.parametrize(
    "settings",
    ["allgather_degree: 2", "ulysses_degree: 2, ring_degree: 2", "use_hsdp: false, tensor_parallel_size: 2"],
)
def test_parallel_sizes_that_go_together(profile_file: WriteProfile, settings: str) -> None:
    assert told(profile_file(f"pipeline: dreamzero\nstages: [{{stage_id: 0, {settings}}}]\n"), "OC705") == []


# ------------------------------------------------------------------------------------------------------ prompts
def test_a_budget_below_the_longest_prompt(profile_file: WriteProfile) -> None:
    long = {"max_num_batched_tokens": 16, "max_model_len": 32}
    assert told(profile_file(TEXT + stage(0, **long, enable_chunked_prefill="false")), "OC605") == [
        (4, 43, "stage 0 may batch 16 tokens, but without chunked prefill a prompt of 32 has to fit in at once")
    ]
    assert told(profile_file(TEXT + stage(0, **long)), "OC605") == []
    assert told(profile_file("enable_chunked_prefill: false\n" + TEXT + stage(0, **long)), "OC605") != []
    equal = stage(0, max_num_batched_tokens=32, max_model_len=32, enable_chunked_prefill="false")
    assert told(profile_file(TEXT + equal), "OC605") == []
