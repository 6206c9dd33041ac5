"""OC601, OC602 and OC603: memory, device lists and batch sizes."""

from __future__ import annotations

import pytest

from omnicfg.diagnostics import Severity
from tests.conftest import WriteProfile
from tests.rules.checked import findings, stage, told
from tests.rules.places import PLACES, set_at, wrong_file

HEAD = "pipeline: qwen3_tts\nasync_chunk: false\nstages:\n"
NO_LIST_FITS = (
    "vLLM-Omni does not count PCP where it divides devices among replicas, so no list fits: "
    "set `num_replicas: 1` or `prefill_context_parallel_size: 1`."
)


# ----------------------------------------------------------------------------------------------------- memory
def test_memory_is_summed_over_stages(profile_file: WriteProfile) -> None:
    text = (
        HEAD + stage(0, devices="'0'", gpu_memory_utilization=0.8) + stage(1, devices="'0'", gpu_memory_utilization=0.4)
    )
    assert told(profile_file(text), "OC601") == [
        (4, 57, "device 0 is asked for 0.8 (stage 0) + 0.4 (stage 1) = 1.2 of its memory")
    ]


def test_exactly_all_of_a_device_is_allowed(profile_file: WriteProfile) -> None:
    text = (
        HEAD + stage(0, devices="'0'", gpu_memory_utilization=0.7) + stage(1, devices="'0'", gpu_memory_utilization=0.3)
    )
    assert told(profile_file(text), "OC601") == []


def test_memory_is_summed_over_replicas(profile_file: WriteProfile) -> None:
    """The template `"0"` of a stage with two replicas takes devices 0 and 1."""
    text = (
        HEAD
        + stage(0, devices="'1'", gpu_memory_utilization=0.6)
        + stage(1, devices="'0'", num_replicas=2, gpu_memory_utilization=0.5)
    )
    assert told(profile_file(text), "OC601") == [
        (4, 57, "device 1 is asked for 0.6 (stage 0) + 0.5 (stage 1) = 1.1 of its memory")
    ]


def test_the_profile_is_blamed_rather_than_its_base(profile_file: WriteProfile) -> None:
    profile_file(HEAD + stage(0, devices="'0'", gpu_memory_utilization=0.9) + stage(1, devices="'1'"), "base.yaml")
    top = profile_file(
        "base_config: base.yaml\nstages:\n" + stage(1, devices="'0'", gpu_memory_utilization=0.2), "top.yaml"
    )
    (found,) = findings(top, "OC601")
    assert (found.path, found.line, found.column, found.stage_id) == (str(top), 3, 57, 1)


def test_memory_on_one_platform(profile_file: WriteProfile) -> None:
    text = (
        HEAD
        + stage(0, devices="'0'", gpu_memory_utilization=0.5)
        + stage(1, devices="'0'", gpu_memory_utilization=0.5)
        + "platforms:\n  npu:\n    stages:\n      - {stage_id: 1, gpu_memory_utilization: 0.7}\n"
    )
    (found,) = findings(profile_file(text), "OC601")
    assert (found.line, found.column, found.platform, found.stage_id) == (9, 47, "npu", 1)


def test_a_setting_that_asks_for_too_much(profile_file: WriteProfile) -> None:
    text = (
        HEAD + stage(0, devices="'0'", gpu_memory_utilization=0.5) + stage(1, devices="'0'", gpu_memory_utilization=0.5)
    )
    (found,) = findings(profile_file(text), "OC601", overrides=["stages.1.gpu_memory_utilization=0.6"])
    assert (found.path, found.line, found.column) == ("--set stages.1.gpu_memory_utilization=0.6", 1, 33)


def open_to_vllm(profile_file: WriteProfile, *stages: str, **options: object) -> list[tuple[int, str]]:
    """Warnings about what a profile leaves open: the line and the sum that is told."""
    found = findings(profile_file(HEAD + "".join(stages)), "OC601", **options)
    assert {one.severity for one in found} <= {Severity.WARNING}
    return [(one.line, one.message.removesuffix(" of its memory").partition("asked for ")[2]) for one in found]


def test_a_stage_without_a_share_takes_nearly_all_of_its_device(profile_file: WriteProfile) -> None:
    whole = stage(0, devices="'0'", gpu_memory_utilization=0.6), stage(1, devices="'0'")
    assert open_to_vllm(profile_file, *whole) == [(5, "0.6 (stage 0) + 0.92 (stage 1, vLLM's default) = 1.52")]
    null = stage(0, devices="'0'", gpu_memory_utilization="null"), stage(1, devices="'0'", gpu_memory_utilization=0.3)
    assert open_to_vllm(profile_file, *null) == [(4, "0.92 (stage 0, vLLM's default) + 0.3 (stage 1) = 1.22")]


def test_stages_without_devices_start_on_the_first(profile_file: WriteProfile) -> None:
    stages = stage(0, gpu_memory_utilization=0.9), stage(1, devices="'0'", gpu_memory_utilization=0.9)
    told = [(4, "0.9 (stage 0, which names no device) + 0.9 (stage 1) = 1.8")]
    assert open_to_vllm(profile_file, *stages) == told


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (stage(0, gpu_memory_utilization=0.9), stage(1, devices="'1'")),
        (stage(0, devices="'0'"), stage(1, devices="'0'")),
        (stage(0, gpu_memory_utilization=0.6), stage(1, gpu_memory_utilization=0.4)),
        (stage(0, devices="'0'", gpu_memory_utilization=0.6), stage(1, devices="'0'", kv_cache_memory_bytes=1024)),
        (stage(0, devices="'0'", gpu_memory_utilization=0.6), stage(1, devices="'x'")),
        (stage(0, devices="'0'", gpu_memory_utilization=0.6), stage(1, devices="'0'", gpu_memory_utilization="'x'")),
    ],
    ids=["another-device", "no-share-at-all", "enough", "cache-in-bytes", "no-device-number", "no-number"],
)
def test_what_is_left_open_and_does_no_harm_or_is_told_otherwise(
    profile_file: WriteProfile, one: str, other: str
) -> None:
    assert open_to_vllm(profile_file, one, other) == []


def test_on_the_bundled_engine_later_stages_are_not_on_vllm(profile_file: WriteProfile) -> None:
    stages = stage(0, devices="'0'", gpu_memory_utilization=0.6), stage(1, devices="'0'")
    assert open_to_vllm(profile_file, *stages, engine="bundled") == []


# ---------------------------------------------------------------------------------------------------- devices
@pytest.mark.parametrize(
    ("settings", "message", "help_text"),
    [
        (
            {"devices": "'0'", "tensor_parallel_size": 2},
            "stage 0 lists 1 device(s) and needs 2 (TP 2 · PP 1 · DP 1)",
            "List 2 device(s), or change the parallel sizes.",
        ),
        (
            {"devices": "'0,1'"},
            "stage 0 lists 2 device(s) and needs 1 (TP 1 · PP 1 · DP 1)",
            "List 1 device(s), or change the parallel sizes.",
        ),
        (
            {"devices": "'0,1,2'", "num_replicas": 2},
            "stage 0 lists 3 device(s) and needs 1 (TP 1 · PP 1 · DP 1) for each of 2 replicas",
            'List all 2 devices, or the template `"0"` that each replica repeats.',
        ),
        (
            {"devices": "'0'", "prefill_context_parallel_size": 2},
            "stage 0 lists 1 device(s) and needs 2 (TP 1 · PP 1 · DP 1 · PCP 2)",
            "List 2 device(s), or change the parallel sizes.",
        ),
        (
            {"devices": "'0,1,2,3'", "prefill_context_parallel_size": 2, "num_replicas": 2},
            "stage 0 lists 4 device(s) and needs 2 (TP 1 · PP 1 · DP 1 · PCP 2) for each of 2 replicas",
            NO_LIST_FITS,
        ),
        (
            {"devices": "'4,5'", "tensor_parallel_size": 2, "num_replicas": 2},
            "stage 0 lists 2 device(s) and needs 2 (TP 2 · PP 1 · DP 1) for each of 2 replicas",
            'List all 4 devices, or the template `"0,1"` that each replica repeats.',
        ),
        (
            {"devices": "'0,1,2,3'", "tensor_parallel_size": 2, "pipeline_parallel_size": 2, "data_parallel_size": 2},
            "stage 0 lists 4 device(s) and needs 8 (TP 2 · PP 2 · DP 2)",
            "List 8 device(s), or change the parallel sizes.",
        ),
    ],
)  # fmt: skip
def test_a_list_that_does_not_fit(
    profile_file: WriteProfile, settings: dict[str, object], message: str, help_text: str
) -> None:
    (found,) = findings(profile_file(HEAD + stage(0, **settings)), "OC602")
    assert (found.line, found.column, found.message, found.help) == (4, 28, message, help_text)


@pytest.mark.parametrize(
    "settings",
    [
        {"devices": "'0,1'", "tensor_parallel_size": 2},
        {"devices": "'2,3,4,5'", "tensor_parallel_size": 2, "num_replicas": 2},
        {"devices": "'0,1'", "tensor_parallel_size": 2, "num_replicas": 2},
        {"devices": "'0'", "num_replicas": 4},
        {"devices": "' 0 , 1 '", "tensor_parallel_size": 2},
        {"devices": "'0,1'", "data_parallel_size": 4, "data_parallel_size_local": 2},
        {"devices": "null", "tensor_parallel_size": 2},
    ],
)
def test_lists_that_fit(profile_file: WriteProfile, settings: dict[str, object]) -> None:
    assert told(profile_file(HEAD + stage(0, **settings)), "OC602") == []


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        ("0,0", "`devices: 0,0` of stage 0 lists device 0 twice"),
        ("0,abc", "`devices: 0,abc` of stage 0 holds `abc`, which is no device number"),
        ("0,-1", "`devices: 0,-1` of stage 0 holds `-1`, which is no device number"),
        ("0,,1", "`devices: 0,,1` of stage 0 holds ``, which is no device number"),
        ("", '`devices: ""` of stage 0 names no device'),
        (" ", '`devices: ""` of stage 0 names no device'),
        ("\u0663", "`devices: \u0663` of stage 0 holds `\u0663`, which is no device number"),
        ("99999999999", "`devices: 99999999999` of stage 0 holds `99999999999`, which is no device number"),
    ],
)
def test_a_list_that_is_no_device_list(profile_file: WriteProfile, devices: str, message: str) -> None:
    found = findings(profile_file(HEAD + stage(0, devices=f"'{devices}'")), "OC602")
    assert [(one.line, one.column, one.message) for one in found] == [(4, 28, message)]


def test_devices_of_a_platform(profile_file: WriteProfile) -> None:
    text = HEAD + stage(0, devices="'0'") + "platforms:\n  rocm:\n    stages:\n      - {stage_id: 0, devices: '0,1'}\n"
    (found,) = findings(profile_file(text), "OC602")
    assert (found.line, found.column, found.platform) == (8, 32, "rocm")


@pytest.mark.parametrize("place", PLACES)
def test_devices_in_every_place_once(profile_file: WriteProfile, place: str) -> None:
    found = set_at(place, profile_file, "devices", '"0,1"')
    assert [one.code for one in found] == ["OC602"]
    assert found[0].path.endswith(wrong_file(place))


def test_a_size_for_all_stages_is_reported_once_where_it_is_set(profile_file: WriteProfile) -> None:
    text = "data_parallel_size: 2\n" + HEAD + stage(0, devices="'0'") + stage(1, devices="'1'")
    (found,) = findings(profile_file(text), "OC602")
    assert (found.line, found.column, found.stage_id, found.platform) == (1, 21, None, None)
    assert found.message == (
        "`data_parallel_size: 2` is for every stage, but stage 0 lists 1 device(s) and needs 2 (TP 1 · PP 1 · DP 2); "
        "stage 1 lists 1 device(s) and needs 2 (TP 1 · PP 1 · DP 2)"
    )
    (found,) = findings(profile_file(text.partition("\n")[2]), "OC602", overrides=["data_parallel_size=2"])
    assert found.path == "--set data_parallel_size=2"


def test_a_size_for_all_stages_that_is_not_the_reason(profile_file: WriteProfile) -> None:
    text = "data_parallel_size: 2\n" + HEAD + stage(0, devices="'0'", tensor_parallel_size=2)
    assert [(line, column) for line, column, _ in told(profile_file(text), "OC602")] == [(5, 28)]


def test_a_diffusion_stage_with_too_few_devices(profile_file: WriteProfile) -> None:
    text = "pipeline: dreamzero\nstages:\n" + stage(0, devices="'0'", ulysses_degree=2, cfg_parallel_size=2)
    (found,) = findings(profile_file(text), "OC602")
    assert (found.line, found.column, found.severity) == (3, 28, Severity.ERROR)
    assert found.message == "stage 0 lists 1 device(s) and needs 4 (TP 1 · PP 1 · DP 1 · SP 2 · CFG 2)"


def test_devices_that_a_diffusion_stage_leaves_idle(profile_file: WriteProfile) -> None:
    text = "pipeline: dreamzero\nstages:\n" + stage(0, devices="'0,1'")
    (found,) = findings(profile_file(text), "OC602")
    assert (found.severity, found.help) == (Severity.WARNING, "List 1 device(s), or change the parallel sizes.")


def test_a_share_that_is_none_is_told_once(profile_file: WriteProfile) -> None:
    text = HEAD + stage(0, devices="'0'", gpu_memory_utilization=3) + stage(1, devices="'0'")
    assert told(profile_file(text), "OC601") == []
    assert len(told(profile_file(text), "OC105")) == 1


def test_a_diffusion_stage_reserves_no_share_of_memory(profile_file: WriteProfile) -> None:
    text = "pipeline: glm_image\nasync_chunk: false\nstages:\n"
    text += stage(0, devices="'0'", gpu_memory_utilization=0.6) + stage(1, devices="'0'", gpu_memory_utilization=0.6)
    assert told(profile_file(text), "OC601") == []


# ------------------------------------------------------------------------------------------------------ batches
def test_a_budget_below_the_number_of_sequences(profile_file: WriteProfile) -> None:
    text = HEAD + stage(0, max_num_batched_tokens=16, max_num_seqs=64)
    assert told(profile_file(text), "OC603") == [(4, 43, "stage 0 may batch 16 tokens but run 64 sequences")]


def test_a_budget_that_only_a_base_and_a_profile_make_too_small(profile_file: WriteProfile) -> None:
    base = profile_file(HEAD + stage(0, max_num_batched_tokens=16, max_num_seqs=4), "base.yaml")
    top = profile_file("base_config: base.yaml\nstages:\n" + stage(0, max_num_seqs=32), "top.yaml")
    (found,) = findings(top, "OC603")
    assert (found.path, found.line, found.column) == (str(top), 3, 33)
    assert found.message == f"stage 0 may batch 16 tokens ({base}:4:43) but run 32 sequences"
    assert found.help == "Set `max_num_batched_tokens` to at least 32."


def test_what_a_file_makes_wrong_stands_in_that_file(profile_file: WriteProfile) -> None:
    base = profile_file(HEAD + stage(0, devices="'0'", max_num_batched_tokens=512), "base.yaml")
    above = "base_config: base.yaml\nstages:\n"
    more = profile_file(above + stage(0, tensor_parallel_size=2), "more.yaml")
    (found,) = findings(more, "OC602")
    assert (found.path, found.line, found.column) == (str(more), 3, 41)
    assert found.message == f"stage 0 lists 1 device(s) ({base}:4:28) and needs 2 (TP 2 · PP 1 · DP 1)"
    whole = profile_file(above + stage(0, max_model_len=4096, enable_chunked_prefill="false"), "whole.yaml")
    (found,) = findings(whole, "OC605")
    assert (found.path, found.line, found.column) == (str(whole), 3, 34)
    (found,) = findings(base, "OC603", overrides=["stages.0.max_num_seqs=600"])
    assert found.path == "--set stages.0.max_num_seqs=600"


def test_equal_numbers_are_in_order(profile_file: WriteProfile) -> None:
    assert told(profile_file(HEAD + stage(0, max_num_batched_tokens=64, max_num_seqs=64)), "OC603") == []


def test_a_diffusion_stage_is_refused_such_a_budget_as_well(profile_file: WriteProfile) -> None:
    text = "pipeline: dreamzero\nstages:\n  - {stage_id: 0, max_num_batched_tokens: 2, max_num_seqs: 4}\n"
    assert told(profile_file(text), "OC603") == [(3, 43, "stage 0 may batch 2 tokens but run 4 sequences")]
