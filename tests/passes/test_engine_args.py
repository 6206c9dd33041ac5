"""Pass 8: what each stage is started with, in vllm-omni's order of precedence."""

from __future__ import annotations

from typing import Any

import pytest

import omnicfg
from omnicfg.errors import ResolveError
from omnicfg.plan import Plan, StagePlan
from omnicfg.tree import Node, plain
from tests.conftest import WriteProfile

TTS = "pipeline: qwen3_tts\nasync_chunk: false\n"
ENTRY = TTS + "stages:\n  - stage_id: 0\n"


def stage_of(plan: Plan, stage_id: int = 0) -> StagePlan:
    found = plan.stage(stage_id)
    assert found is not None
    return found


@pytest.fixture
def stage(profile_file: WriteProfile) -> Any:
    """The first stage of a profile that is given as text."""
    return lambda text, stage_id=0, **options: stage_of(omnicfg.resolve(profile_file(text), **options), stage_id)


def history(node: Node | None) -> list[tuple[str, object]]:
    assert node is not None
    return [
        (node.layer.kind.value, plain(node)),
        *((one.node.layer.kind.value, plain(one.node)) for one in node.beaten),
    ]


# ------------------------------------------------------------------------------------------------- the whole plan
def test_the_shape_of_a_plan(profile_file: WriteProfile) -> None:
    data = omnicfg.resolve(profile_file(ENTRY), platform="npu").to_dict()
    assert list(data) == ["profile", "platform", "pipeline", "deploy", "stages"]
    assert (data["platform"], data["pipeline"]) == ("npu", "qwen3_tts")
    assert [list(one) for one in data["stages"]] == [
        [
            "stage_id", "model_stage", "stage_type", "worker_type", "scheduler_cls", "input_sources", "final_output",
            "final_output_type", "hf_config_name", "is_comprehension", "custom_process_input_func",
            "sampling_constraints", "engine_args", "runtime", "extras",
        ]
    ] * 2  # fmt: skip


@pytest.mark.parametrize(
    ("pipeline", "stage_id", "kind"),
    [
        ("qwen3_tts", 0, ("llm", "ar")),
        ("qwen3_tts", 1, ("llm", "generation")),
        ("glm_image", 1, ("diffusion", None)),
    ],
)
def test_kinds_of_stages(stage: Any, pipeline: str, stage_id: int, kind: tuple[str, str | None]) -> None:
    found = stage(f"pipeline: {pipeline}\nasync_chunk: false\n", stage_id)
    assert (found.stage_type, found.worker_type) == kind


# ---------------------------------------------------------------------------------------------------- precedence
def test_extras_beat_the_stages_own_fields(stage: Any) -> None:
    found = stage(ENTRY + "    max_num_seqs: 4\n    engine_extras: {max_num_seqs: 8}\n")
    assert history(found.engine_args.get("max_num_seqs")) == [("profile", 8), ("profile", 4)]


def test_for_keys_outside_the_schema_the_stages_own_key_beats_the_extras(stage: Any) -> None:
    found = stage(ENTRY + "    kv_cache_dtype: fp8\n    engine_extras: {kv_cache_dtype: auto}\n")
    assert history(found.engine_args.get("kv_cache_dtype")) == [("profile", "fp8"), ("profile", "auto")]


def test_a_stage_beats_what_is_said_for_all_stages(stage: Any) -> None:
    wide = "dtype: float32\n"
    assert stage(ENTRY + wide).arg("dtype") == "float32"
    found = stage(ENTRY + "    dtype: float16\n" + wide)
    assert history(found.engine_args.get("dtype")) == [("profile", "float16"), ("profile", "float32")]


def test_a_null_field_is_no_argument_but_a_null_key_outside_the_schema_is(stage: Any) -> None:
    found = stage(ENTRY + "    max_num_seqs: null\n    kv_cache_dtype: null\n")
    assert "max_num_seqs" not in found.engine_args.items
    assert "kv_cache_dtype" in found.engine_args.items


def test_null_in_the_extras_is_a_value(stage: Any) -> None:
    found = stage(ENTRY + "    max_num_seqs: 4\n    engine_extras: {max_num_seqs: null}\n")
    assert "max_num_seqs" in found.engine_args.items
    assert found.arg("max_num_seqs") is None


def test_a_setting_beats_the_extras_of_a_file(stage: Any) -> None:
    found = stage(ENTRY + "    engine_extras: {max_num_seqs: 8}\n", overrides=["stages.0.max_num_seqs=2"])
    assert found.arg("max_num_seqs") == 2


def test_the_platform_beats_the_stage_but_not_the_extras_of_the_base(stage: Any) -> None:
    block = "platforms: {npu: {stages: [{stage_id: 0, max_num_seqs: 1}]}}\n"
    assert stage(ENTRY + "    max_num_seqs: 4\n" + block, platform="npu").arg("max_num_seqs") == 1
    assert stage(ENTRY + "    engine_extras: {max_num_seqs: 4}\n" + block, platform="npu").arg("max_num_seqs") == 4


# -------------------------------------------------------------------------------------------------- derived values
def test_the_next_stage_processor_follows_async_chunk(stage: Any) -> None:
    text = "pipeline: qwen3_tts\nasync_chunk: {}\n"
    name = "custom_process_next_stage_input_func"
    assert stage(text.format("true")).arg(name).endswith(".talker2code2wav_async_chunk")
    assert stage(text.format("false")).arg(name).endswith(".talker2code2wav_full_payload")


def test_derived_arguments_lie_where_their_source_lies(stage: Any) -> None:
    found = stage("pipeline: qwen3_tts\nmodel_runner: v2\n").engine_args.get("use_v2_model_runner")
    assert history(found)[0] == ("profile", True)
    assert (found.mark.line, found.mark.column) == (2, 15)


def test_the_scheduler_follows_async_scheduling_on_text_stages(stage: Any) -> None:
    on, off = stage(ENTRY + "    async_scheduling: true\n"), stage(ENTRY + "    async_scheduling: false\n")
    assert (on.arg("async_scheduling"), off.arg("async_scheduling")) == (True, False)
    assert on.tree.value("scheduler_cls") != off.tree.value("scheduler_cls")
    quoted = stage(ENTRY + "    async_scheduling: 'false'\n")
    assert quoted.arg("async_scheduling") is True  # text that is not empty
    assert quoted.tree.value("scheduler_cls") == on.tree.value("scheduler_cls")


def test_duplex_sets_the_number_of_sessions(stage: Any) -> None:
    text = "pipeline: minicpmo_4_5\nsession_mode: {}\nduplex_session: {{max_sessions: 3}}\n"
    assert stage(text.format("duplex")).arg("duplex_max_sessions") == 3
    assert "duplex_max_sessions" not in stage(text.format("turn")).engine_args.items


def test_memory_profiling_is_skipped_where_no_media_comes_in(stage: Any) -> None:
    assert stage(ENTRY).arg("skip_mm_profiling") is True
    assert stage(ENTRY + "    skip_mm_profiling: false\n").arg("skip_mm_profiling") is False
    assert "skip_mm_profiling" not in stage("pipeline: qwen3_omni_moe\n").engine_args.items


@pytest.mark.parametrize("name", ["use_v2_model_runner", "supports_native_mrv2_data_plane"])
def test_what_is_derived_cannot_be_set(stage: Any, name: str) -> None:
    with pytest.raises(ResolveError) as refused:
        stage(ENTRY + f"    engine_extras: {{{name}: true}}\n")
    (reason,) = refused.value.diagnostics
    assert (reason.code, reason.line, reason.column, reason.stage_id) == ("OC018", 5, 21, 0)


def test_an_engine_arg_is_a_name(stage: Any) -> None:
    with pytest.raises(ResolveError, match=r"profile\.yaml:5:21: OC005 the engine arg 5 is not a name"):
        stage(ENTRY + "    engine_extras: {5: 1}\n")


# --------------------------------------------------------------------------------------------------------- runtime
def test_runtime_of_a_stage(stage: Any) -> None:
    assert plain(stage(ENTRY + "    devices: '0'\n    env: {A: 1}\n").runtime) == {
        "process": True,
        "devices": "0",
        "num_replicas": 1,
        "env": {"A": 1},
        "requires_multimodal_data": False,
    }


def test_runtime_of_a_stage_that_the_profile_leaves_out(stage: Any) -> None:
    assert plain(stage(TTS).runtime) == {"process": True, "requires_multimodal_data": False}


# ---------------------------------------------------------------------------------------------------------- extras
def test_the_topologys_constraints_win_and_stop_tokens_are_united(stage: Any) -> None:
    found = stage(
        ENTRY + "    default_sampling_params: {detokenize: true, temperature: 0.5, stop_token_ids: [7, 2150, 8]}\n"
    )
    params = found.extras.mapping("default_sampling_params")
    assert plain(params) == {"detokenize": False, "temperature": 0.5, "stop_token_ids": [7, 2150, 8]}
    assert history(params.get("detokenize")) == [("topology", False), ("profile", True)]
    assert [plain(lost.node) for lost in params.items["stop_token_ids"].beaten] == [[7, 2150, 8]]


def test_constraints_alone_are_the_parameters(stage: Any) -> None:
    assert plain(stage(TTS).extras) == {"default_sampling_params": {"detokenize": False, "stop_token_ids": [2150]}}


@pytest.mark.parametrize("ids", ["5", "{a: 1}", "[[1]]", "text"])
def test_stop_tokens_are_a_list_of_ids(stage: Any, ids: str) -> None:
    with pytest.raises(ResolveError, match="OC008 `stop_token_ids` is a list of token ids"):
        stage(ENTRY + f"    default_sampling_params: {{stop_token_ids: {ids}}}\n")


def test_connectors_of_a_stage(stage: Any) -> None:
    found = stage(ENTRY + "    output_connectors: {to_stage_1: shm}\n    input_connectors: {}\n")
    assert plain(found.extras)["output_connectors"] == {"to_stage_1": "shm"}
    assert "input_connectors" not in found.extras.items


@pytest.mark.parametrize("name", ["input_connectors", "output_connectors", "default_pooling_params"])
def test_a_block_of_the_wrong_shape(stage: Any, name: str) -> None:
    with pytest.raises(ResolveError, match=f"OC008 `{name}` is a single value; it has to be a mapping"):
        stage(ENTRY + f"    {name}: 5\n")
